"""The page in Chromium, with the real server and the embedded voice.

Needs an idle machine: a busy CPU causes gaps.
"""

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.web_demo.browser import MARKS, browsing, until

pytestmark = [*MARKS, pytest.mark.model]
TEXT = "Good evening. It is a fine day, and the network is stable. The server is not busy."
SILENCE_RMS = 0.01  # -40 dBFS
TIMEOUT_S = 60


@contextmanager
def server() -> Iterator[str]:
    command = [sys.executable, "-m", "realtime_tts", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            log = ""
            while (found := re.search(r"http://127\.0\.0\.1:\d+", log)) is None:
                line = process.stderr.readline()
                assert line, log
                log += line
            yield found[0]
        finally:
            process.kill()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server() as address:
        yield address


@pytest.fixture
async def page(url: str) -> AsyncIterator[Any]:
    async with browsing(url) as page:
        await page.wait_for_selector("#status:has-text('Ready')")
        await page.fill("#text", TEXT)
        yield page


async def report_of(page: Any, folder: Path) -> dict[str, Any]:
    await page.focus("#tab-export")
    await page.keyboard.press("Enter")
    async with page.expect_download() as download:
        await page.click("#save-report")
    await (await download.value).save_as(folder / "report.json")
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


async def test_a_single_listener_has_no_gap(page: Any) -> None:
    await page.click("#speak")
    end = await until(page, "s.outcome !== null", TIMEOUT_S)
    assert (end["outcome"], end["underruns"]) == ("spoken", 0)


@pytest.mark.parametrize("form", ["pcm", "opus", "pcm_mulaw"])
async def test_each_format_plays_and_the_page_s_figures_equal_the_server_s(
    page: Any, tmp_path: Path, form: str
) -> None:
    await page.click("#more summary")
    await page.select_option("#format", form)
    await page.click("#speak")
    await until(page, f"s.rms > {SILENCE_RMS}", TIMEOUT_S)
    end = await until(page, "s.outcome !== null", TIMEOUT_S)
    assert (end["outcome"], end["problem"]) == ("spoken", None)
    report = await report_of(page, tmp_path)
    here, there = report["continuity"]["client"], report["continuity"]["server"]
    assert here["packets"] == there["packets"]
    assert end["played_ms"] == pytest.approx(there["audio_ms"], abs=1)
    assert here["audio_s"] * 1000 == pytest.approx(there["audio_ms"], abs=5)
    assert here["max_underrun_s"] * 1000 == pytest.approx(there["max_underrun_ms"], abs=5)
    assert here["underrun_total_s"] * 1000 == pytest.approx(there["underrun_total_ms"], abs=5)
    first_ms = next(mark["at_ms"] for mark in report["latency"] if mark["name"] == "first_packet")
    sent_ms = next(mark["at_ms"] for mark in report["latency"] if mark["name"] == "first_token_sent")
    assert first_ms - sent_ms == pytest.approx(there["ttfp_ms"], abs=5)
    assert await page.locator("#transcript .sentence[data-state=played]").count() == len(report["sentences"])
    assert len(report["words"]) >= len(TEXT.split())


async def test_a_barge_in_silences_within_50_ms_and_splits_the_text(page: Any) -> None:
    await page.click("#speak")
    await until(page, "s.played_ms > 1500", TIMEOUT_S)
    await page.keyboard.press("Space")
    stopped = await until(page, "s.silent_after_ms !== null && s.cancelled_after_ms !== null")
    assert stopped["silent_after_ms"] < 50
    played, remaining = await page.inner_text("#transcript .played"), await page.inner_text("#transcript .remaining")
    assert played + remaining == TEXT
    assert played.startswith("Good evening.")
    assert remaining.endswith("busy.")
