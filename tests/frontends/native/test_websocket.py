"""Frames that aiohttp will not read are answered by a message that says why, before the close."""

import json
import struct
from contextlib import suppress

import aiohttp
import pytest
import websockets.asyncio.client

from realtime_tts.server.app import ServerLimits
from realtime_tts.session.limits import SessionLimits
from tests.base_client import base_client, ws_url
from tests.fakes import spoken_pcm, until
from tests.serving import tone_server

STREAM = {"response_format": "pcm", "stream_audio": True}
LIMITS = ServerLimits(session=SessionLimits(max_message_bytes=1000))

MASK = b"\x00\x00\x00\x00"
"""Under which bytes stay as they are."""


def frame(first_byte: int, payload: bytes, *, length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return bytes([first_byte, 0x80 | 127]) + struct.pack("!Q", size) + MASK + payload


async def why(url: str, raw: bytes) -> tuple[dict[str, object], int | None, str | None]:
    """The error, the close code and its reason that a client gets who sends `raw` in place of a frame."""
    async with aiohttp.ClientSession() as session, session.ws_connect(ws_url(url), autoclose=False) as socket:
        assert socket._conn is not None
        transport = socket._conn.transport
        assert transport is not None
        transport.write(raw)
        error = json.loads((await socket.receive(10)).data)
        close = await socket.receive(10)
        assert close.type is aiohttp.WSMsgType.CLOSE, close
        return error, close.data, close.extra


@pytest.mark.parametrize(
    ("raw", "code", "close_code"),
    [
        (frame(0x81, b"\xff\xfe"), "invalid_message", 1007),
        (frame(0x81, b'{"type": "input.text", "text": "\xed\xa0\x80"}'), "invalid_message", 1007),
        (frame(0x81, b"", length=8001), "message_too_big", 1009),
        (frame(0x82, b"", length=2**62), "message_too_big", 1009),
        (frame(0x01, b"x" * 5000) + frame(0x80, b"x" * 5000), "message_too_big", 1009),
        (frame(0x81, b"x" * 2000), "message_too_big", 1009),
        (frame(0x83, b"x"), "invalid_message", 1002),
        (frame(0xF1, b"x"), "invalid_message", 1002),
        (frame(0x80, b"x"), "invalid_message", 1002),
    ],
)
async def test_what_cannot_be_read_is_explained_before_the_close(raw: bytes, code: str, close_code: int) -> None:
    async with tone_server(limits=LIMITS) as (url, server):
        error, closed_with, reason = await why(url, raw)
        assert (error["type"], error["code"], error["fatal"]) == ("error", code, True)
        assert error["session_id"]
        assert (closed_with, reason) == (close_code, code)
        await until(lambda: server.active_sessions == 0)
        async with base_client(url, **STREAM) as client:
            assert (await client.speak("Hello.")).audio == [spoken_pcm("Hello.")]


async def test_a_client_in_the_midst_of_thirty_megabytes_still_reads_why() -> None:
    async with tone_server() as (url, server):
        socket = await websockets.asyncio.client.connect(ws_url(url), proxy=None, compression=None)
        with suppress(websockets.ConnectionClosed):
            await socket.send("x" * 30_000_000)
        assert json.loads(await socket.recv())["code"] == "message_too_big"
        await socket.wait_closed()
        assert (socket.close_code, socket.close_reason) == (1009, "message_too_big")
        await until(lambda: server.active_sessions == 0)


async def test_bytes_that_are_utf8_are_the_text_they_were() -> None:
    async with tone_server() as (url, _server), base_client(url, **STREAM) as client:
        utterance = await client.speak("Größe, 中文, 😀 all right.")
        assert "".join(utterance.texts) == "Größe, 中文, 😀 all right."
