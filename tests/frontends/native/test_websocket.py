"""WebSocket frames that cannot be read: an error message precedes the close."""

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
"""A mask that leaves bytes unchanged."""


def frame(first_byte: int, payload: bytes, *, length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return bytes([first_byte, 0x80 | 127]) + struct.pack("!Q", size) + MASK + payload


async def error_and_close(url: str, raw: bytes) -> tuple[dict[str, object], int | None, str | None]:
    """The error message, the close code and the close reason after a client has sent `raw` in place of a frame."""
    async with aiohttp.ClientSession() as session, session.ws_connect(ws_url(url), autoclose=False) as socket:
        assert socket._conn is not None
        transport = socket._conn.transport
        assert transport is not None
        transport.write(raw)
        error = json.loads((await socket.receive(10)).data)
        close = await socket.receive(10)
        assert close.type is aiohttp.WSMsgType.CLOSE, close
        return error, close.data, close.extra


UNREADABLE: dict[str, tuple[bytes, str, int]] = {
    "not UTF-8": (frame(0x81, b"\xff\xfe"), "invalid_message", 1007),
    "a surrogate": (frame(0x81, b'{"type": "input.text", "text": "\xed\xa0\x80"}'), "invalid_message", 1007),
    "a long text frame": (frame(0x81, b"", length=8001), "message_too_big", 1009),
    "a long binary frame": (frame(0x82, b"", length=2**62), "message_too_big", 1009),
    "long fragments": (frame(0x01, b"x" * 5000) + frame(0x80, b"x" * 5000), "message_too_big", 1009),
    "above the session's limit": (frame(0x81, b"x" * 2000), "message_too_big", 1009),
    "a reserved opcode": (frame(0x83, b"x"), "invalid_message", 1002),
    "reserved bits": (frame(0xF1, b"x"), "invalid_message", 1002),
    "a continuation of nothing": (frame(0x80, b"x"), "invalid_message", 1002),
}
"""Frames, with the code and the close code of the error."""


async def test_an_unreadable_frame_is_answered_with_an_error_before_the_close() -> None:
    async with tone_server(limits=LIMITS) as (url, server):
        for name, (raw, code, close_code) in UNREADABLE.items():
            error, closed_with, reason = await error_and_close(url, raw)
            assert (error["type"], error["code"], error["fatal"]) == ("error", code, True), name
            assert error["session_id"], name
            assert (closed_with, reason) == (close_code, code), name
            await until(lambda: server.active_sessions == 0)
        async with base_client(url, **STREAM) as client:
            assert (await client.speak("Hello.")).audio == [spoken_pcm("Hello.")]


@pytest.mark.slow  # 2 s: the server discards what it receives for that time
async def test_a_client_that_is_sending_30_mb_receives_the_error() -> None:
    async with tone_server() as (url, server):
        socket = await websockets.asyncio.client.connect(ws_url(url), proxy=None, compression=None)
        with suppress(websockets.ConnectionClosed):
            await socket.send("x" * 30_000_000)
        assert json.loads(await socket.recv())["code"] == "message_too_big"
        await socket.wait_closed()
        assert (socket.close_code, socket.close_reason) == (1009, "message_too_big")
        await until(lambda: server.active_sessions == 0)


async def test_utf8_text_is_received_unchanged() -> None:
    async with tone_server() as (url, _server), base_client(url, **STREAM) as client:
        utterance = await client.speak("Größe, 中文, 😀 all right.")
        assert "".join(utterance.texts) == "Größe, 中文, 😀 all right."
