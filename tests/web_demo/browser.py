"""Chromium with the demo page, for the browser tests."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

async_api = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
MARKS = [
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
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
]
EXPECTED_STATUSES = ("503", "401", "404")
"""The browser logs every failed request as an error: refusals, and the missing /v1/models of an older server."""


@asynccontextmanager
async def browsing(url: str, microphone: Path | None = None, **context: Any) -> AsyncIterator[Any]:
    """Yields the page at `url`.  Fails at the end on any script error or CSP violation.

    `microphone` is a WAV file that replaces the microphone, in a loop.
    """
    console_errors: list[str] = []
    flags = FLAGS if microphone is None else [*FLAGS, f"--use-file-for-fake-audio-capture={microphone}"]
    async with async_api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=flags)
        try:
            page = await (await browser.new_context(**context)).new_page()
            page.on("pageerror", lambda error: console_errors.append(str(error)))
            page.on("console", lambda message: _collect(console_errors, message.type, message.text))
            await page.goto(url)
            yield page
        finally:
            await browser.close()
    assert console_errors == []


def _collect(console_errors: list[str], kind: str, text: str) -> None:
    if kind == "error" and not any(status in text for status in EXPECTED_STATUSES):
        console_errors.append(text)


async def until(page: Any, condition: str, timeout_s: float = 15) -> dict[str, Any]:
    """Waits until `condition`, a JavaScript expression over the snapshot `s`, is true; returns the snapshot."""
    # Polled: playwright's wait_for_function evaluates strings, which the page's CSP forbids.
    async with asyncio.timeout(timeout_s):
        expression = f"(() => {{ const s = window.rtts; return ({condition}) && s; }})()"
        while not (stats := await page.evaluate(expression)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    found: dict[str, Any] = stats
    return found


async def slide(page: Any, slider: str, value: float) -> None:
    """Sets a slider as a user does."""
    await page.eval_on_selector(
        slider, "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }", value
    )
