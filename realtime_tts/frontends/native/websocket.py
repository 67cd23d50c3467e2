"""The native protocol on aiohttp's WebSocket: typed errors for unreadable frames, pings, lost peers."""

import asyncio
import socket
import struct
from collections.abc import Coroutine, Iterable
from functools import partial
from typing import Any

from aiohttp import WSMsgType, web
from aiohttp.abc import AbstractStreamWriter

from realtime_tts.errors import InvalidMessage, InvalidRequest, MalformedMessage, MessageTooBig, RealtimeTTSError
from realtime_tts.frontends.dialects import ClientDialect
from realtime_tts.frontends.native.encode import error_message
from realtime_tts.frontends.native.messages import PROTOCOL, encode
from realtime_tts.session.events import SessionEvent
from realtime_tts.session.frontend import Frame
from realtime_tts.session.inputs import SessionInput

PING_INTERVAL_S = 20.0
UNACKNOWLEDGED_S = 60
IMAGE, BEGINNING_BYTES = b'"input.image"', 256
"""A message with this at its beginning is decoded in a thread: a picture takes a fraction of a second."""
CLOSE_TIMEOUT_S = 5.0
LINGER_S = 2.0
"""How long received data is discarded after an error, so that the peer can read the error."""


class UnreadableFrame(InvalidMessage):
    """Not a WebSocket frame (RFC 6455), close code 1002."""

    close_code = 1002


UNREADABLE: dict[int, RealtimeTTSError] = {
    1002: UnreadableFrame("these are not WebSocket frames (RFC 6455)"),
    1007: MalformedMessage("the message is not UTF-8"),
    1009: MessageTooBig("the message is far larger than `limits.max_message_bytes`"),
}
"""Errors by the close code of aiohttp, for frames that it rejects before the session receives them."""


class ExplainedWebSocket(web.WebSocketResponse):
    """A WebSocket that sends an `error` message before aiohttp closes it for an unreadable frame."""

    def __init__(self, request: web.BaseRequest, session_id: str, max_message_bytes: int) -> None:
        super().__init__(
            compress=False,  # permessage-deflate costs 7x the time, and speech does not compress
            max_msg_size=max_message_bytes,
            timeout=CLOSE_TIMEOUT_S,
            protocols=(PROTOCOL,),
            decode_text=False,  # aiohttp would close without an error message
        )
        self._request_of = request
        self._session_id = session_id

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        try:
            return await super().prepare(request)
        except ValueError:  # a key that is not ASCII: aiohttp expects `binascii.Error` alone
            raise InvalidRequest("Sec-WebSocket-Key is not base64") from None

    async def close(self, *, code: int = 1000, message: bytes = b"", drain: bool = True) -> bool:
        if code in UNREADABLE and not message and not self.closed:
            await self._explain(code)
        return await super().close(code=code, message=message, drain=drain)

    async def _explain(self, code: int) -> None:
        error = UNREADABLE[code]
        try:
            await self.send_frame(encode(error_message(error, self._session_id)), WSMsgType.TEXT)
            await self.send_frame(struct.pack("!H", code) + error.code.encode(), WSMsgType.CLOSE)
        except ConnectionError:
            return
        # A socket closed with unread data is reset, and data sent before may be lost.
        for _ in range(int(LINGER_S / 0.05)):
            transport = self._request_of.transport
            if transport is None or transport.is_closing():
                return
            await asyncio.sleep(0.05)


class NativeFrontEnd:
    """The native protocol for one WebSocket."""

    def __init__(
        self, websocket: web.WebSocketResponse, request: web.BaseRequest, session_id: str, max_message_bytes: int
    ) -> None:
        self._websocket = websocket
        self._request = request
        self._dialect = ClientDialect(session_id, max_message_bytes)

    async def receive(self) -> Iterable[SessionInput] | None:
        message = await self._websocket.receive()
        if message.type is WSMsgType.TEXT or message.type is WSMsgType.BINARY:
            is_binary = message.type is WSMsgType.BINARY
            decoding = partial(self._dialect.decode, message.data, is_binary=is_binary)
            if not is_binary and IMAGE in message.data[:BEGINNING_BYTES]:
                return await asyncio.to_thread(decoding)
            return decoding()
        return None

    def encode(self, event: SessionEvent) -> Iterable[Frame]:
        return self._dialect.encode(event)

    def send(self, frame: Frame) -> Coroutine[Any, Any, None]:
        return self._websocket.send_frame(frame.data, WSMsgType.BINARY if frame.is_binary else WSMsgType.TEXT)

    @property
    def is_flushed(self) -> bool:
        transport = self._request.transport
        return transport is not None and transport.get_write_buffer_size() == 0

    async def close(self, code: int, reason: str) -> None:
        await self._websocket.close(code=code, message=reason.encode())

    def abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()


class Pings:
    """Pings, so that middleboxes do not drop a quiet connection.

    Not aiohttp's `heartbeat`: that drops a peer 10 s after a ping, and a client that reads as fast as it plays may read
    the ping only after a minute of audio.  TCP detects a lost peer, see `detect_lost_peer`.

    A timer, and a task only during a ping: a task for each session would take 1.5 KiB.
    """

    def __init__(self, websocket: web.WebSocketResponse) -> None:
        self._websocket = websocket
        self._pinging: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(PING_INTERVAL_S, self._begin)

    def stop(self) -> None:
        self._timer.cancel()
        if self._pinging is not None:
            self._pinging.cancel()

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(PING_INTERVAL_S, self._begin)
        if self._pinging is None or self._pinging.done():
            self._pinging = loop.create_task(self._ping())

    async def _ping(self) -> None:
        try:
            await self._websocket.ping()
        except ConnectionError:
            self._timer.cancel()  # the reader ends the session


def detect_lost_peer(request: web.BaseRequest) -> None:
    """Makes TCP drop the connection if the peer's machine acknowledges no data, such as pings, for a minute."""
    connection = request.transport.get_extra_info("socket") if request.transport is not None else None
    if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_S * 1000)
