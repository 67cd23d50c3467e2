"""aiohttp's WebSocket as a session's transport: typed errors for what cannot be read, pings, peers that are gone."""

import asyncio
import socket
import struct

from aiohttp import WSMsgType, web

from realtime_tts.session.messages import ServerError, encode
from realtime_tts.session.protocol import PROTOCOL

PING_INTERVAL_S = 20.0
UNACKNOWLEDGED_S = 60
CLOSE_TIMEOUT_S = 5.0
LINGER_S = 2.0
"""How long what a peer still sends is thrown away after an error, so that it gets to read why."""

UNREADABLE = {
    1002: ("invalid_message", "these are no frames of a WebSocket (RFC 6455)"),
    1007: ("invalid_message", "the message is not UTF-8"),
    1009: ("message_too_big", "the message is far larger than `limits.max_message_bytes`"),
}
"""By the code with which aiohttp closes: frames that it refuses before a session could."""
NOT_UTF8 = "\ufffd"
"""In place of a text frame that is no UTF-8.  It is no JSON either, so the session ends with a typed error and 1007."""


class ExplainedWebSocket(web.WebSocketResponse):
    """A WebSocket that says why, in a message of the protocol, before aiohttp closes it for an unreadable frame."""

    def __init__(self, request: web.BaseRequest, session_id: str, max_message_bytes: int) -> None:
        super().__init__(
            compress=False,  # permessage-deflate costs 7x the time, and speech does not compress
            max_msg_size=max_message_bytes,
            timeout=CLOSE_TIMEOUT_S,
            protocols=(PROTOCOL,),
            decode_text=False,  # aiohttp would close without a word
        )
        self._request_of = request
        self._session_id = session_id

    async def close(self, *, code: int = 1000, message: bytes = b"", drain: bool = True) -> bool:
        if code in UNREADABLE and not message and not self.closed:
            await self._explain(code)
        return await super().close(code=code, message=message, drain=drain)

    async def _explain(self, code: int) -> None:
        name, words = UNREADABLE[code]
        error = ServerError(code=name, message=words, fatal=True, retryable=False, session_id=self._session_id)
        try:
            await self.send_frame(encode(error), WSMsgType.TEXT)
            await self.send_frame(struct.pack("!H", code) + name.encode(), WSMsgType.CLOSE)
        except ConnectionError:
            return
        # A socket closed with something unread is reset, and what was sent before may be lost with it.
        for _ in range(int(LINGER_S / 0.05)):
            transport = self._request_of.transport
            if transport is None or transport.is_closing():
                return
            await asyncio.sleep(0.05)


class WebSocketTransport:
    """For a session's `Connection`."""

    def __init__(self, websocket: web.WebSocketResponse, request: web.BaseRequest) -> None:
        self._websocket = websocket
        self._request = request

    async def receive(self) -> str | bytes | None:
        message = await self._websocket.receive()
        if message.type is WSMsgType.TEXT:
            data: bytes = message.data
            try:
                return data.decode()
            except UnicodeDecodeError:
                return NOT_UTF8
        if message.type is WSMsgType.BINARY:
            binary: bytes = message.data
            return binary
        return None

    async def send_text(self, data: bytes) -> None:
        await self._websocket.send_frame(data, WSMsgType.TEXT)

    async def send_bytes(self, data: bytes) -> bool:
        was_clear = self._has_nothing_unsent()
        await self._websocket.send_bytes(data)
        return was_clear and self._has_nothing_unsent()

    def _has_nothing_unsent(self) -> bool:
        transport = self._request.transport
        return transport is not None and transport.get_write_buffer_size() == 0

    async def close(self, code: int, reason: str) -> None:
        await self._websocket.close(code=code, message=reason.encode())

    def abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()


async def ping(websocket: web.WebSocketResponse) -> None:
    """Keeps middleboxes from dropping a quiet socket.

    Not aiohttp's `heartbeat`: that gives a peer up 10 s after a ping, and the answer of one who reads at the pace of
    speech can stand behind a minute of audio.  A peer that is gone is found by TCP, below.
    """
    while True:
        await asyncio.sleep(PING_INTERVAL_S)
        try:
            await websocket.ping()
        except ConnectionError:
            return  # the reader learns of it too


def give_up_on_silent_peers(request: web.BaseRequest) -> None:
    """A peer whose machine does not even acknowledge our pings for a minute is gone."""
    connection = request.transport.get_extra_info("socket") if request.transport is not None else None
    if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_S * 1000)
