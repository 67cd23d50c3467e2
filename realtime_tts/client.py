"""A Python client of the native protocol: sends text, receives typed events.

async with connect("http://127.0.0.1:8000", voice="af_heart") as session:
    await session.send_text("Hello world.")
    await session.done()
    async for event in session.utterance():
        ...
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

import msgspec
import websockets.asyncio.client
from websockets.exceptions import (
    ConcurrencyError,
    ConnectionClosed,
    ConnectionClosedError,
    InvalidHandshake,
    InvalidStatus,
    InvalidURI,
)

from realtime_tts.errors import RealtimeTTSError
from realtime_tts.frontends.native.frame_header import HEADER_BYTES, FrameHeader
from realtime_tts.frontends.native.messages import (
    PROTOCOL,
    STREAM_PATH,
    AnyServerMessage,
    AudioStart,
    SessionDone,
    decode_server_message,
)

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""A whole wav file of a long, slow sentence at 48 kHz is one frame."""


@dataclass(frozen=True, slots=True)
class Audio:
    """One binary frame of the sentence that `start` announced."""

    data: bytes
    """Without its header."""
    start: AudioStart
    header: FrameHeader | None = None


ClientEvent: TypeAlias = AnyServerMessage | Audio


class ConnectionRefused(RealtimeTTSError):
    """There is no server at the address, or it refused the connection; `status` is its HTTP status, if any."""

    code = "connection_refused"

    def __init__(self, message: str, status: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


class SessionEnded(RealtimeTTSError):
    """The connection ended before everything requested was received."""

    code = "session_ended"

    def __init__(self, close_code: int | None, reason: str) -> None:
        super().__init__(f"the connection ended ({close_code}: {reason or 'no reason given'})")
        self.received_close_code = close_code


class ClientSession:
    """One connection.  Iterating gives every event until it closes; `utterance` those up to `session.done`."""

    def __init__(self, socket: websockets.asyncio.client.ClientConnection) -> None:
        self._socket = socket
        self._start: AudioStart | None = None
        self._starts: dict[int, AudioStart] = {}
        """By context number."""

    async def configure(self, **fields: Any) -> None:
        """Sends `session.config`; omitted fields keep their value.  protocol.md lists the fields."""
        await self._send({"type": "session.config", **fields})

    async def send_text(self, text: str, context_id: str | None = None) -> None:
        """Sends the next part of the text, of any length."""
        await self._send({"type": "input.text", "text": text, "context_id": context_id})

    async def flush(self, context_id: str | None = None) -> None:
        """Speaks the text sent so far, even if its sentence has not ended; the utterance stays open."""
        await self._send({"type": "input.flush", "context_id": context_id})

    async def commit(self, commit_id: str | None = None, context_id: str | None = None) -> None:
        """The same as `flush`; the server acknowledges it with `input.committed`."""
        await self._send({"type": "input.commit", "commit_id": commit_id, "context_id": context_id})

    async def done(self, context_id: str | None = None) -> None:
        """Ends the utterance: the server speaks all of the text sent so far."""
        await self._send({"type": "input.done", "context_id": context_id})

    async def cancel(self, context_id: str | None = None, *, playback_offset_ms: float | None = None) -> None:
        """Barge-in: stops at once.  `audio.cancelled` reports the text played; no audio of the context follows."""
        message = {"type": "input.cancel", "context_id": context_id, "playback_offset_ms": playback_offset_ms}
        await self._send(message)

    async def report(self, played_ms: float, buffered_ms: float | None = None, context_id: str | None = None) -> None:
        """Reports how much audio of the context was played; without reports the server estimates it."""
        message = {"type": "playback.report", "context_id": context_id, "played_ms": played_ms}
        await self._send({**message, "buffered_ms": buffered_ms})

    async def keepalive(self) -> None:
        await self._send({"type": "session.keepalive"})

    async def finish(self) -> None:
        """Asks the server to close the connection after it has sent everything."""
        await self._send({"type": "session.close"})

    async def close(self) -> None:
        """Closes the connection at once, even during an utterance."""
        # Audio in transit precedes the server's close frame: left unread, it would delay the close by 10 s.
        draining = asyncio.create_task(self._drain())
        try:
            await self._socket.close()
        finally:
            draining.cancel()

    async def utterance(self) -> AsyncIterator[ClientEvent]:
        """Events up to and including the next `session.done`.  Raises `SessionEnded` if the connection ends earlier."""
        async for event in self:
            yield event
            if isinstance(event, SessionDone):
                return
        raise SessionEnded(self._socket.close_code, self._socket.close_reason or "")

    async def __aiter__(self) -> AsyncIterator[ClientEvent]:
        """Events until the connection closes.  Raises `SessionEnded` if it does not close cleanly."""
        try:
            async for frame in self._socket:
                if (event := self._event(frame)) is not None:
                    yield event
        except ConnectionClosedError:
            raise SessionEnded(self._socket.close_code, self._socket.close_reason or "") from None

    async def _drain(self) -> None:
        with suppress(ConnectionClosed, ConcurrencyError):
            while True:
                await self._socket.recv()

    def _event(self, frame: str | bytes) -> ClientEvent | None:
        if isinstance(frame, bytes):
            return self._audio(frame)
        message = decode_server_message(frame)
        if isinstance(message, AudioStart):
            self._start = self._starts[message.context_number] = message
        return message

    def _audio(self, frame: bytes) -> Audio:
        assert self._start is not None, "the server sent audio before any audio.start"
        if not self._start.frame_header:
            return Audio(frame, self._start)
        header = FrameHeader.unpack(frame)
        return Audio(frame[HEADER_BYTES:], self._starts[header.context_number], header)

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            await self._socket.send(msgspec.json.encode(message).decode())
        except ConnectionClosed:
            raise SessionEnded(self._socket.close_code, self._socket.close_reason or "") from None


@asynccontextmanager
async def connect(url: str, *, api_key: str | None = None, **config: Any) -> AsyncIterator[ClientSession]:
    """Opens a session at `url` (http, https, ws or wss; the protocol's path is added if it has none).

    `config` are fields of `session.config`; by default audio is streamed as PCM.  `api_key` is sent as a bearer token.
    Raises `ConnectionRefused` if there is no server or if it refuses the connection.
    """
    try:
        socket = await websockets.asyncio.client.connect(
            stream_url(url),
            subprotocols=[websockets.Subprotocol(PROTOCOL)],
            compression=None,
            max_size=MAX_FRAME_BYTES,
            proxy=None,
            additional_headers=None if api_key is None else {"Authorization": f"Bearer {api_key}"},
        )
    except InvalidStatus as refusal:
        answer = refusal.response
        body = (answer.body or b"").decode("utf-8", "replace")
        retry_after = answer.headers.get("Retry-After", "")
        retry_after_s = float(retry_after) if retry_after.isdigit() else None
        raise ConnectionRefused(f"the server refused: {body[:500]}", answer.status_code, retry_after_s) from None
    except (OSError, InvalidHandshake, InvalidURI) as error:
        raise ConnectionRefused(f"there is no realtime voice server at {url}: {error}") from None
    session = ClientSession(socket)
    try:
        await session.configure(**{"response_format": "pcm", "stream_audio": True, **config})
        yield session
    finally:
        await session.close()


def stream_url(url: str) -> str:
    """The WebSocket URL of the protocol from any usual address of a server."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    path = parts.path if parts.path not in ("", "/") else STREAM_PATH
    return urlunsplit((scheme, parts.netloc, path, parts.query, ""))
