"""Request bodies: only JSON, of limited size, within a time limit."""

import asyncio
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader, web
from aiohttp.test_utils import make_mocked_request

from realtime_tts.errors import MessageTooBig, SlowClient, UnsupportedMediaType
from realtime_tts.frontends.openai.request_body import deadline, read_json_body


def posted(body: bytes, content_type: str = "application/json", *, complete: bool = True) -> web.Request:
    reader = StreamReader(Mock(), 2**16, loop=asyncio.get_running_loop())
    reader.feed_data(body)
    if complete:
        reader.feed_eof()
    return make_mocked_request("POST", "/", headers={"Content-Type": content_type}, payload=reader)


async def test_json_of_the_allowed_size_is_read() -> None:
    for kind in ("application/json", "application/json; charset=utf-8", "application/ld+json"):
        assert await read_json_body(posted(b"x" * 1000, kind), 1000) == b"x" * 1000
    with pytest.raises(MessageTooBig):
        await read_json_body(posted(b"x" * 1001), 1000)
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        with pytest.raises(UnsupportedMediaType):
            await read_json_body(posted(b"{}", kind), 1000)


async def test_a_body_that_does_not_arrive_in_time_is_refused() -> None:
    with pytest.raises(SlowClient, match=r"0\.01 s"):
        async with deadline(0.01):
            await read_json_body(posted(b"{", complete=False), 1000)
