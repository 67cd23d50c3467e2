"""The chat panel in Chromium, with a real server whose model answers."""

import base64
from typing import Any

from tests.serving import answer_server, tone_server
from tests.web_demo.browser import MARKS, browsing

pytestmark = [*MARKS]

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC")


async def ask(page: Any, text: str) -> None:
    await page.fill("#chat-text", text)
    await page.click("#chat-form button[type=submit]")


async def test_an_answer_is_shown_and_a_file_is_part_of_the_message() -> None:
    async with answer_server() as (url, _server, _engine), browsing(url) as page:
        await page.click("#tab-chat")
        await ask(page, "Hello?")
        await page.wait_for_selector("#chat-turns .assistant:has-text('You said: Hello?')")
        await page.set_input_files("#chat-file", {"name": "dot.png", "mimeType": "image/png", "buffer": PNG})
        await page.wait_for_selector("#chat-files:has-text('dot.png')")
        await ask(page, "And this?")
        await page.wait_for_selector("#chat-turns .assistant:has-text('an image of 1 x 1 pixels')")
        assert not await page.is_visible("#chat-note")
        await page.set_input_files("#chat-file", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"x"})
        await page.wait_for_selector("#chat-note:has-text('neither audio nor an image')")


async def test_without_a_model_that_answers_there_is_no_chat() -> None:
    async with tone_server() as (url, _server), browsing(url) as page:
        await page.wait_for_selector("#status:has-text('Ready')")
        assert not await page.is_visible("#tab-chat")
