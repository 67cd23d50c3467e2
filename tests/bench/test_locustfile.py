"""The load test in locust: headless, on a real server, with an exit status that depends on the underruns."""

import asyncio
import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.serving import tone_server

ROOT = Path(__file__).parents[2]
LOCUST = os.environ.get("LOCUST") or shutil.which("locust", path=Path(sys.executable).parent)
"""The variable names a locust in another environment."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        LOCUST is None and importlib.util.find_spec("locust") is None,
        reason="locust is not installed: pip install realtime-tts[bench], or set LOCUST to its command",
    ),
]


async def locust(url: str, *arguments: str) -> tuple[int | None, str]:
    assert LOCUST is not None
    process = await asyncio.create_subprocess_exec(
        *(LOCUST, "-f", "bench/locustfile.py", "--headless", "--only-summary", "--host", url, "-u", "4", "-r", "4"),
        *("-t", "3s", "--think", "0.2", *arguments),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode()


async def test_a_run_without_underruns_passes() -> None:
    async with tone_server() as (url, _):
        status, text = await locust(url, "--closed")
    assert status == 0, text
    for name in ("sentence", "ttfa", "underrun"):
        counted = re.search(rf"^WS +{name} +(\d+) +0\(0\.00%\)", text, re.MULTILINE)
        assert counted, text
        assert int(counted[1]) >= 4
    assert "PASS: underrun p95" in text


async def test_a_run_above_the_limit_fails() -> None:
    async with tone_server() as (url, _):
        status, text = await locust(url, "--max-underrun-p95-ms=-1")
    assert status == 1
    assert "FAIL: underrun p95" in text


async def test_a_run_without_audio_fails() -> None:
    status, text = await locust("http://127.0.0.1:9")
    assert status == 1
    assert "no audio was received" in text


async def test_remote_servers_are_refused() -> None:
    status, text = await locust("http://192.0.2.1:8000")
    assert status == 1
    assert "not this machine" in text
