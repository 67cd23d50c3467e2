"""Does a real browser, given the page, make sound, count honestly, and fall silent when told to?"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.web_demo.fake_server import Behaviour, serving

async_api = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="Chromium is not installed"),
]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
]
TEXT = "One sentence to begin with. Then a second one. And a third at the end."


@pytest.fixture
def behaviour() -> Behaviour:
    return Behaviour()


@pytest.fixture
async def page(behaviour: Behaviour) -> AsyncIterator[Any]:
    """The demo page, ready to speak.  Any script error or CSP violation fails the test at its end."""
    complaints: list[str] = []
    async with serving(behaviour) as url, async_api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        try:
            page = await browser.new_page()
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("console", lambda message: _keep(complaints, message.type, message.text))
            await page.goto(url)
            await page.wait_for_selector("#status:has-text('Ready')")
            await page.fill("#text", TEXT)
            yield page
        finally:
            await browser.close()
    assert complaints == []


def _keep(complaints: list[str], kind: str, text: str) -> None:
    if kind == "error" and "503" not in text:  # a refused socket is logged by the browser itself
        complaints.append(text)


async def until(page: Any, condition: str, timeout_s: float = 15) -> dict[str, Any]:
    """Wait until `condition`, a JavaScript expression over `s`, holds; the stats at that moment."""
    # Polled from here: playwright's own wait_for_function evaluates strings, which the page's CSP forbids.
    async with asyncio.timeout(timeout_s):
        expression = f"(() => {{ const s = window.rtts; return ({condition}) && s; }})()"
        while not (stats := await page.evaluate(expression)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    found: dict[str, Any] = stats
    return found


async def test_speak_is_heard_to_the_end_without_a_gap(page: Any, behaviour: Behaviour) -> None:
    await page.click("#speak")
    loud = await until(page, "s.rms > 0.05")
    assert loud["state"] == "speaking"
    assert loud["first_packet_ms"] < loud["first_audible_ms"] < 3000
    end = await until(page, "s.outcome !== null && s.buffered_ms === 0")
    assert (end["outcome"], end["underruns"], end["problem"]) == ("spoken", 0, None)
    assert end["played_ms"] == pytest.approx(end["report"]["audio_s"] * 1000, abs=0.001)
    assert end["report"]["underrun_count"] == 0
    types = [message["type"] for message in behaviour.received]
    assert types == ["session.config", "input.text", "input.done"]
    assert behaviour.received[0]["voice"] == "af_heart"
    assert await page.locator("#sentences li[data-state=heard]").count() == 3
    assert "0 gaps (worst 0 ms)" in await page.inner_text("#measures")


async def test_no_sound_is_claimed_from_before_its_packet(page: Any, behaviour: Behaviour) -> None:
    """An audio device that is just starting reports times that are too early; the page must not repeat them."""
    behaviour.first_packet_s, behaviour.speed = 0.0, 30
    await page.click("#speak")
    heard = await until(page, "s.played_ms > 700")
    assert heard["first_packet_ms"] < heard["first_audible_ms"]


async def test_the_sentence_that_is_heard_is_lit_not_the_one_that_arrives(page: Any, behaviour: Behaviour) -> None:
    behaviour.speed = 30
    await page.click("#speak")
    await until(page, "s.played_ms > 200 && s.buffered_ms > 500")
    assert await page.locator("#sentences li").count() == 3
    assert await page.inner_text("#sentences li[aria-current=true]") == "One sentence to begin with."
    await until(page, "s.played_ms > 1000")
    assert await page.inner_text("#sentences li[aria-current=true]") == "Then a second one."


async def test_stop_is_silence_within_50_ms(page: Any, behaviour: Behaviour) -> None:
    await page.click("#speak")
    await until(page, "s.rms > 0.05")
    await page.keyboard.press("Escape")
    stopped = await until(page, "s.silent_after_ms !== null && s.rms === 0")
    assert (stopped["state"], stopped["outcome"], stopped["buffered_ms"]) == ("idle", "stopped", 0)
    assert stopped["silent_after_ms"] < 50
    await asyncio.wait_for(behaviour.closed.wait(), 2)  # the server is told, so that it stops working


async def test_after_a_stop_the_next_press_speaks_again(page: Any) -> None:
    for _ in range(3):
        await page.focus("#text")
        await page.keyboard.press("Control+Enter")
        await until(page, "s.rms > 0.05")
        await page.click("#stop")
    await page.click("#speak")
    end = await until(page, "s.outcome === 'spoken'")
    assert end["underruns"] == 0


async def test_a_second_utterance_reuses_the_open_socket(page: Any, behaviour: Behaviour) -> None:
    for _ in range(2):
        await page.fill("#text", "Short.")
        await page.click("#speak")
        await until(page, "s.outcome === 'spoken'")
    assert not behaviour.closed.is_set()
    assert [message["type"] for message in behaviour.received].count("input.done") == 2


async def test_a_stall_is_heard_and_counted_once(page: Any, behaviour: Behaviour) -> None:
    behaviour.stall_after_s, behaviour.stall_s, behaviour.speed = 0.4, 0.8, 2
    await page.click("#speak")
    gap = await until(page, "s.gap_open_ms > 0")
    assert gap["underruns"] == 0  # not yet: it is a gap only once audio ends it
    end = await until(page, "s.outcome === 'spoken'")
    assert end["underruns"] == end["report"]["underrun_count"] == 1
    assert 200 < end["worst_gap_ms"] < 900
    assert "1 gap (worst" in await page.inner_text("#measures")


async def test_a_lost_connection_is_said_and_the_next_press_reconnects(page: Any, behaviour: Behaviour) -> None:
    behaviour.drop_after_s = 0.3
    await page.click("#speak")
    end = await until(page, "s.outcome !== null")
    assert end["outcome"] == "failed"
    assert (
        await page.inner_text("#problem") == end["problem"] == "Something went wrong on the server. Please try again."
    )
    behaviour.drop_after_s = None
    await page.click("#speak")
    end = await until(page, "s.outcome === 'spoken'")
    assert not await page.is_visible("#problem")


async def test_a_server_that_is_not_ready_is_said_in_plain_words(page: Any, behaviour: Behaviour) -> None:
    behaviour.refuse = True
    await page.click("#speak")
    end = await until(page, "s.outcome === 'failed'")
    assert "not ready yet" in end["problem"]
    assert await page.is_visible("#problem")


async def test_a_refused_request_is_said_in_plain_words(page: Any, behaviour: Behaviour) -> None:
    behaviour.error = {"code": "text_too_long", "message": "text has 9 characters, the limit is 1"}
    await page.click("#speak")
    end = await until(page, "s.outcome === 'failed'")
    assert end["problem"] == "This text is too long for one go. Please shorten it."


async def test_voices_are_grouped_by_language_under_human_names(page: Any, behaviour: Behaviour) -> None:
    groups = await page.eval_on_selector_all("#voice optgroup", "all => all.map(g => [g.label, g.children.length])")
    assert groups == [["American English", 3], ["British English", 2], ["Japanese", 1]]
    await page.select_option("#voice", label="Emma — British, female")
    await page.click("#speak")
    await until(page, "s.rms > 0.05")
    assert behaviour.received[0]["voice"] == "bf_emma"


async def test_an_empty_text_asks_for_words(page: Any, behaviour: Behaviour) -> None:
    await page.fill("#text", "   ")
    await page.click("#speak")
    assert "nothing to say" in await page.inner_text("#problem")
    assert behaviour.received == []
