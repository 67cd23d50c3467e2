"""The WebSocket transport of the native protocol (RFC 6455): handshake, frames, control frames, the close.

aiohttp routes the request and answers 101; then the bytes go to the sans-I/O protocol of `websockets`, which checks
what aiohttp's reader does not (masks, close codes).  `wsproto` would check the same, but is one more dependency.  Our
frames are a header and a payload, written directly on the asyncio transport: speech needs no mask, no compression and
no fragments, and any further layer costs time for each packet.
"""

import asyncio
import base64
import binascii
import hashlib
import logging
import socket
import struct
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from aiohttp import hdrs, web
from websockets.frames import Frame as WireFrame
from websockets.frames import Opcode
from websockets.protocol import OPEN, SERVER, Protocol

from realtime_tts.errors import (
    InvalidMessage,
    InvalidRequest,
    MalformedMessage,
    MessageTooBig,
    MethodNotAllowed,
    RealtimeTTSError,
    UnsupportedWebSocketVersion,
)
from realtime_tts.frontends.dialects import ClientDialect
from realtime_tts.frontends.native.messages import PROTOCOL
from realtime_tts.session.events import SessionEvent
from realtime_tts.session.frontend import Frame
from realtime_tts.session.inputs import SessionInput
from realtime_tts.session.wakeup import Wakeup

IMAGE, BEGINNING_BYTES = b'"input.image"', 256
"""A message with this at its beginning is decoded in a thread: a picture takes a fraction of a second."""
PING_INTERVAL_S = 20.0
"""Of our pings, so that middleboxes do not drop a quiet connection."""
UNACKNOWLEDGED_S = 60
CLOSE_TIMEOUT_S = 5.0
LINGER_S = 2.0
"""How long received data is discarded after an error, so that the peer can read the error."""
READ_AHEAD_BYTES = 64 * 1024
"""Received and not yet parsed; above it the socket is not read."""
SLICE_BYTES = 1024
"""Parsed at once: at most 170 frames, which need 2 to 4 ms."""
BLOCK_BYTES = 32 * 1024
"""Parsed without letting other sessions run, where each frame counts as `FRAME_BYTES` more."""
FRAME_BYTES = 256
MAX_SMALL_FRAMES = 2000
"""Control frames and fragments of one client in each `PING_INTERVAL_S`: 0.2% of the time of the event loop."""
WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455, 1.3."""

# The library logs each closed connection and, at DEBUG, each frame, which may contain a client's text.
_LOG = logging.getLogger("realtime_tts.websocket_frames")
_LOG.setLevel(logging.ERROR)


class UnreadableFrame(InvalidMessage):
    """Not a WebSocket frame (RFC 6455), close code 1002."""

    close_code = 1002


class TooManyFrames(RealtimeTTSError):
    """A flood of control frames or fragments: each needs as much time as a message."""

    code = "too_many_frames"
    close_code = 1008


UNREADABLE: dict[int, RealtimeTTSError] = {
    1002: UnreadableFrame("these are not WebSocket frames (RFC 6455)"),
    1007: MalformedMessage("the reason of the close is not UTF-8"),
    1009: MessageTooBig("the message is far larger than `limits.max_message_bytes`"),
}
"""Errors by the close code of the parser, for frames that it rejects before the session receives them."""


class Message(NamedTuple):
    """One complete message of the peer."""

    data: bytes
    is_binary: bool


class Upgrade(web.StreamResponse):
    """The response 101."""

    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__(status=101, headers=headers)
        self.force_close()


def upgrade_headers(request: web.BaseRequest) -> dict[str, str]:
    """The headers of a 101 (RFC 6455, 4.2).  Raises an error with an HTTP status if the request is not a handshake."""
    if request.method != hdrs.METH_GET:
        raise MethodNotAllowed("a WebSocket is opened by GET")
    headers = request.headers
    if request.version < (1, 1):
        raise InvalidRequest("a WebSocket is opened over HTTP/1.1")
    if _tokens(headers.getall(hdrs.UPGRADE, [])) != ["websocket"]:
        raise InvalidRequest("this URL is for WebSockets: it needs the header `Upgrade: websocket`")
    if "upgrade" not in _tokens(headers.getall(hdrs.CONNECTION, [])):
        raise InvalidRequest("a WebSocket needs the header `Connection: Upgrade`")
    if headers.getall(hdrs.SEC_WEBSOCKET_VERSION, []) != ["13"]:
        raise UnsupportedWebSocketVersion("this server speaks version 13 of WebSocket (RFC 6455)")
    accepted: dict[str, str] = {
        hdrs.UPGRADE: "websocket",
        hdrs.CONNECTION: "Upgrade",
        hdrs.SEC_WEBSOCKET_ACCEPT: _accept_value(headers.getall(hdrs.SEC_WEBSOCKET_KEY, [])),
    }
    if PROTOCOL.lower() in _tokens(headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, [])):
        accepted[hdrs.SEC_WEBSOCKET_PROTOCOL] = PROTOCOL
    return accepted


def _tokens(values: Iterable[str]) -> list[str]:
    return [token.strip().lower() for value in values for token in value.split(",") if token.strip()]


def _accept_value(keys: list[str]) -> str:
    try:
        is_valid = len(keys) == 1 and len(base64.b64decode(keys[0], validate=True)) == 16
    except (binascii.Error, ValueError):
        is_valid = False
    if not is_valid:
        raise InvalidRequest("Sec-WebSocket-Key must be 16 bytes in base64")
    return base64.b64encode(hashlib.sha1(keys[0].encode() + WEBSOCKET_GUID).digest()).decode()


class WebSocket:
    """One connection: the parser that aiohttp gives the bytes to, and the writer of our frames.

    One task receives at a time, and one sends.  Received data waits in the kernel while its session is busy.
    """

    __slots__ = (
        *("_close_sent", "_connection", "_discards", "_ended", "_error", "_fragments", "_small_frames"),
        *("_is_binary", "_is_paused", "_messages", "_parser", "_ping_timer", "_received", "_request"),
        *("_transport", "_unanswered_ping", "_unread", "_writer"),
    )

    def __init__(self, request: web.BaseRequest, max_message_bytes: int) -> None:
        self._request = request
        self._connection = request.protocol
        self._parser = Protocol(SERVER, state=OPEN, max_size=max_message_bytes, logger=_LOG)
        self._unread = bytearray()
        self._fragments: bytearray | None = None
        """Of an incomplete message."""
        self._is_binary = False
        """Of the incomplete message."""
        self._messages: list[Message] = []
        self._received = Wakeup()
        self._is_paused = False
        self._error: RealtimeTTSError | None = None
        """To be raised after the messages before it."""
        self._discards = False
        """What follows an error is discarded: it cannot be parsed."""
        self._ended = False
        """The peer has sent its close, or has disconnected."""
        self._close_sent = False
        self._small_frames = 0
        """Control frames and fragments since the last ping."""
        self._unanswered_ping: bytes | None = None
        self._ping_timer: asyncio.TimerHandle | None = None

    async def accept(self) -> web.StreamResponse:
        """Answers 101.  Raises an error with an HTTP status if the request is not a handshake.

        Raises `ConnectionResetError` if the client has disconnected.
        """
        response = Upgrade(upgrade_headers(self._request))
        transport = self._request.transport
        writer = await response.prepare(self._request)
        if transport is None or writer is None:
            raise ConnectionResetError("the client has disconnected")
        self._transport, self._writer = transport, writer
        response.headers.clear()  # sent; they take 1 KiB
        detect_lost_peer(transport)
        self._connection.set_parser(self)  # type: ignore[arg-type]  # in place of aiohttp's own
        self._connection.keep_alive(False)
        self._ping_timer = asyncio.get_running_loop().call_later(PING_INTERVAL_S, self._ping)
        await writer.drain()
        return response

    def release(self) -> None:
        """To be called when the session has ended."""
        if self._ping_timer is not None:
            self._ping_timer.cancel()

    # -- Receiving -----------------------------------------------------------------------------------------------------

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Called by aiohttp with received data.  The result is its convention for "go on, nothing is left"."""
        self._unread += data
        if len(self._unread) > READ_AHEAD_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._received.set()
        return False, b""

    def feed_eof(self) -> None:
        """Called by aiohttp when the connection is lost."""
        self._ended = True
        self._received.set()

    async def receive(self) -> Message | None:
        """The next message; None after the peer has closed or disconnected.

        Raises an error with a close code for what RFC 6455 does not allow, and for a flood of control frames or
        fragments.  Then it discards what follows.
        """
        parsed = 0
        while not self._messages:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self._unread:
                parsed += self._parse_slice()
                if parsed >= BLOCK_BYTES:
                    await asyncio.sleep(0)
                    parsed = 0
            elif self._ended:
                return None
            else:
                await self._received.wait()
        message = self._messages.pop(0)
        if not message.is_binary and not _is_utf8(message.data):
            raise MalformedMessage("the message is not UTF-8")
        return message

    def _parse_slice(self) -> int:
        """Parses the next bytes.  Returns their number, and `FRAME_BYTES` for each frame."""
        size, frames = 0, []
        if self._discards or self._ended:
            self._unread.clear()
        else:
            data = bytes(self._unread[:SLICE_BYTES])
            size = len(data)
            del self._unread[:size]
            self._parser.receive_data(data)
            frames = self._parser.events_received()
            self._parser.data_to_send()  # ours are sent instead of its answers
        if self._is_paused and len(self._unread) <= READ_AHEAD_BYTES // 2 and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()
        for frame in frames:
            if self._discards:
                break
            assert isinstance(frame, WireFrame), "aiohttp has parsed the handshake"
            self._on_frame(frame)
        if self._parser.parser_exc is not None and not self._discards:
            self._on_unreadable()
        return size + FRAME_BYTES * len(frames)

    def _on_frame(self, frame: WireFrame) -> None:
        opcode = frame.opcode
        if opcode is Opcode.CLOSE:
            self._on_close(bytes(frame.data))
        elif opcode is Opcode.PING or opcode is Opcode.PONG:
            self._count_small_frame()
            if opcode is Opcode.PING and not self._discards:
                self._unanswered_ping = bytes(frame.data)
                self._answer_ping()
        else:
            self._on_data(frame)

    def _on_data(self, frame: WireFrame) -> None:
        """The parser has checked the order of the fragments."""
        if frame.opcode is not Opcode.CONT:
            self._is_binary = frame.opcode is Opcode.BINARY
        if not frame.fin:
            self._count_small_frame()
            if self._fragments is None:
                self._fragments = bytearray()
            self._fragments += frame.data
        else:
            data = frame.data if self._fragments is None else self._fragments + frame.data
            self._fragments = None
            self._messages.append(Message(bytes(data), self._is_binary))

    def _count_small_frame(self) -> None:
        self._small_frames += 1
        if self._small_frames > MAX_SMALL_FRAMES and not self._discards:
            self._discards = True
            self._error = TooManyFrames(
                f"more than {MAX_SMALL_FRAMES} control frames and fragments in {PING_INTERVAL_S:g} s"
            )

    def _on_close(self, payload: bytes) -> None:
        """`payload`: the code and the reason, or nothing.  They are sent back."""
        self._ended = True
        if not self._close_sent and not self._transport.is_closing():
            self._write_close(payload)

    def _on_unreadable(self) -> None:
        self._discards = True
        parser = self._parser
        if (received := parser.close_rcvd) is not None:
            # A close in the middle of a fragmented message is allowed (RFC 6455, 5.4), though the parser rejects it.
            self._on_close(b"" if received.code == 1005 else received.serialize())
        else:
            sent = parser.close_sent
            self._error = UNREADABLE[1002 if sent is None else sent.code]

    # -- Sending -------------------------------------------------------------------------------------------------------

    def send(self, frame: Frame) -> Coroutine[Any, Any, None] | None:
        """Writes one message.  The result, if any, is to be awaited: the client does not read fast enough.

        Raises `ConnectionResetError`.
        """
        transport = self._transport
        if self._close_sent or transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        data = frame.data
        size, opcode = len(data), 0x82 if frame.is_binary else 0x81
        if size < 126:
            transport.write(_SHORT.pack(opcode, size) + data)
        elif size < 65536:
            transport.write(_MEDIUM.pack(opcode, 126, size) + data)
        else:
            transport.write(_LONG.pack(opcode, 127, size) + data)
        return self._drained() if self._connection.writing_paused else None

    async def _drained(self) -> None:
        await self._writer.drain()
        self._answer_ping()

    def _answer_ping(self) -> None:
        """Answers the last ping.  Not while the client does not read: the answers would fill the memory."""
        payload = self._unanswered_ping
        if payload is None or self._connection.writing_paused or self._close_sent or self._transport.is_closing():
            return
        self._unanswered_ping = None
        self._transport.write(_SHORT.pack(0x8A, len(payload)) + payload)

    def _ping(self) -> None:
        """Keeps the connection open.

        No answer is waited for: a client that reads as fast as it plays may read the ping after a minute of audio.
        TCP detects a lost peer, see `detect_lost_peer`.
        """
        self._ping_timer = asyncio.get_running_loop().call_later(PING_INTERVAL_S, self._ping)
        self._small_frames = 0
        if not (self._close_sent or self._transport.is_closing() or self._connection.writing_paused):
            self._transport.write(_SHORT.pack(0x89, 0))

    async def close(self, code: int, reason: str) -> None:
        """Sends the only close frame, and discards what the peer sends until its own one.

        A socket closed with unread data is reset, and data sent before, such as an error, may be lost.
        """
        if self._transport.is_closing():
            return
        if not self._close_sent:
            self._write_close(struct.pack("!H", code) + reason.encode())
        try:
            async with asyncio.timeout(LINGER_S if self._discards else CLOSE_TIMEOUT_S):
                await self._discard_all()
        except TimeoutError:
            if self._transport.get_write_buffer_size():
                self._transport.abort()  # it would wait for a client that does not read

    def _write_close(self, payload: bytes) -> None:
        self._close_sent = True
        self._transport.write(_SHORT.pack(0x88, len(payload)) + payload)

    async def _discard_all(self) -> None:
        """Discards what the peer sends, until its close or the end of the connection."""
        while not (self._ended and not self._unread):
            self._messages.clear()
            self._error = None
            with suppress(RealtimeTTSError):
                await self.receive()
            await asyncio.sleep(0)  # many messages would delay all other sessions

    def abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()


_SHORT, _MEDIUM, _LONG = struct.Struct("!BB"), struct.Struct("!BBH"), struct.Struct("!BBQ")
"""Headers of frames without a mask, by the length of the payload."""


def _is_utf8(data: bytes) -> bool:
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def detect_lost_peer(transport: asyncio.Transport) -> None:
    """Makes TCP drop the connection if the peer's machine acknowledges no data, such as pings, for a minute."""
    connection = transport.get_extra_info("socket")
    if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_S * 1000)


class NativeFrontEnd:
    """The native protocol for one WebSocket."""

    __slots__ = ("_dialect", "_websocket", "send")

    def __init__(self, websocket: WebSocket, session_id: str, max_message_bytes: int) -> None:
        self._websocket = websocket
        self._dialect = ClientDialect(session_id, max_message_bytes)
        self.send = websocket.send

    async def receive(self) -> Iterable[SessionInput] | None:
        message = await self._websocket.receive()
        if message is None:
            return None
        if not message.is_binary and IMAGE in message.data[:BEGINNING_BYTES]:
            return await asyncio.to_thread(self._dialect.decode, message.data, is_binary=False)
        return self._dialect.decode(message.data, is_binary=message.is_binary)

    def encode(self, event: SessionEvent) -> Iterable[Frame]:
        return self._dialect.encode(event)

    async def close(self, code: int, reason: str) -> None:
        await self._websocket.close(code, reason)

    def abort(self) -> None:
        self._websocket.abort()
