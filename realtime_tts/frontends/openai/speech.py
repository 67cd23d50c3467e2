"""One request for speech over HTTP: what it asks of a session, and how the session's sound becomes one answer."""

import asyncio
import base64
import json
import re
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias

import msgspec
from aiohttp import web
from msgspec import Struct

from realtime_tts.audio.encoder import Packet, make_encoder
from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.audio.ogg import OggOpusStream
from realtime_tts.audio.pcm import pcm_samples
from realtime_tts.engine.api import FinishReason, ModelInfo
from realtime_tts.errors import (
    InvalidMessage,
    NothingToSpeak,
    RealtimeTTSError,
    SynthesisTruncated,
    TextTooLong,
    UnsupportedFormat,
)
from realtime_tts.frontends.openai.errors import error_fields, error_response, field_of, invalid_field
from realtime_tts.session.messages import (
    AudioDone,
    ServerError,
    SessionConfig,
    SessionDone,
    SessionUpdated,
    Usage,
    decode_server_message,
)

IGNORED_HEADER = "X-Realtime-TTS-Ignored"
"""Names what was asked for and changes nothing."""

PIECE_BYTES = 48 * 1024
TEXT_SLICE_CHARS = 8000
"""A session bounds its messages in bytes, and JSON takes up to twelve for a character."""

_LENGTH_IN_FRONT = (Encoding.WAV, Encoding.FLAC)
"""Streamed, they say "unknown": players take that, and many a program that reads files does not."""

_HERE_OTHERWISE = {
    *("voice", "speaker", "response_format", "sample_rate", "stream_audio"),
    *("frame_header", "word_timestamps", "on_new_context", "max_buffer_delay_ms", "unknown"),
}
_SESSION_FIELDS = frozenset(SessionConfig.__struct_fields__) - _HERE_OTHERWISE
"""Fields of `session.config` that mean the same here; the session checks them."""

Fields: TypeAlias = dict[str, Any]
"""A JSON object as it came, or as it goes."""


class VoiceId(Struct, frozen=True):
    id: str


class SpeechRequest(Struct, frozen=True, kw_only=True):
    """The fields that are not a session's."""

    input: str
    voice: str | VoiceId | None = None
    response_format: str = "mp3"
    """OpenAI's default."""
    sample_rate: int | None = None
    stream: bool | None = None
    """Where it is not said: false for wav and flac, whose length stands in front, true for all others."""
    stream_format: Literal["audio", "sse"] = "audio"


@dataclass(frozen=True, slots=True)
class Wish:
    """A request for speech, checked as far as that goes without a session."""

    text: str
    config: Fields
    format: AudioFormat
    whole: bool
    """Nothing goes out before all is made."""
    sse: bool
    ignored: tuple[str, ...]


def decode_fields(body: bytes) -> Fields:
    """Raises `InvalidMessage`."""
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        fields = _other_json(body)
    except RecursionError:
        raise InvalidMessage("the body is nested too deeply") from None
    if not isinstance(fields, dict):
        raise InvalidMessage("the body must be a JSON object")
    return {name: value for name, value in fields.items() if value is not None}


def _other_json(body: bytes) -> Any:
    """It may still be JSON: msgspec refuses the escape of a lone surrogate, which a text cut short can end in."""
    try:
        return json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InvalidMessage("the body is not JSON") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def make_wish(
    fields: Fields, info: ModelInfo, resolve_voice: Callable[[str], Fields], *, max_chars: int, max_whole_chars: int
) -> Wish:
    """`resolve_voice` gives the fields of `session.config` that mean a voice.  Raises a `RealtimeTTSError`."""
    own = {name: value for name, value in fields.items() if name in SpeechRequest.__struct_fields__}
    try:
        asked = msgspec.convert(own, SpeechRequest)
    except msgspec.ValidationError as error:
        raise invalid_field(error) from None
    audio_format = _format(asked, info)
    sse = asked.stream_format == "sse"
    streamed = asked.stream if asked.stream is not None else audio_format.encoding not in _LENGTH_IN_FRONT
    whole = not streamed and not sse
    _check_text(asked.input, max_whole_chars if whole else max_chars)
    config = {name: value for name, value in fields.items() if name in _SESSION_FIELDS}
    ignored = [name for name in fields if name not in own and name not in _SESSION_FIELDS]
    if "instructions" in config and "instructions" not in info.fields:
        # OpenAI's own models differ in whether they follow them, and none refuses them.
        del config["instructions"]
        ignored.append("instructions")
    voice = asked.voice.id if isinstance(asked.voice, VoiceId) else asked.voice
    if voice is not None:
        config |= resolve_voice(voice)
    return Wish(asked.input, config, audio_format, whole, sse, tuple(ignored))


def _format(asked: SpeechRequest, info: ModelInfo) -> AudioFormat:
    name, rate_hz = asked.response_format, asked.sample_rate
    if name == "aac":
        raise UnsupportedFormat(
            f"aac is not supported, because there is no free encoder; use one of {', '.join(Encoding)}",
            param="response_format",
        )
    if rate_hz is None:
        rate_hz = AudioFormat.default_rate_hz(name, info.sample_rate_hz)
    return AudioFormat.parse(name, rate_hz)


def _check_text(text: str, max_chars: int) -> None:
    if not text.strip():
        raise NothingToSpeak("is empty", param="input")
    if len(text) > max_chars:
        raise TextTooLong(
            f"{len(text)} characters are more than the {max_chars} of one request in this format;"
            " stream it, send less at a time, or use the WebSocket",
            param="input",
        )


# -- The session's other end ------------------------------------------------------------------------------------------


class SpeechTransport:
    """A session's client, in process: sends a config, a text and its end, and hands the sound on to an answer."""

    def __init__(self, request: web.Request, wish: Wish, model_rate_hz: int, answer: "Answer") -> None:
        self._request = request
        self._answer = answer
        sound = {"response_format": "pcm", "sample_rate": model_rate_hz, "stream_audio": True}
        slices = (wish.text[at : at + TEXT_SLICE_CHARS] for at in range(0, len(wish.text), TEXT_SLICE_CHARS))
        self._config: str | None = json.dumps({**wish.config, **sound, "type": "session.config"})
        self._accepted = asyncio.Event()
        self._incoming = deque(
            [
                *(json.dumps({"type": "input.text", "text": text}) for text in slices),
                '{"type":"input.done"}',
                '{"type":"session.close"}',
            ]
        )
        self._failure: ServerError | None = None
        self._wordless: ServerError | None = None
        self._done: SessionDone | None = None

    async def receive(self) -> str | bytes | None:
        if self._config is not None:
            config, self._config = self._config, None
            return config
        await self._accepted.wait()  # text that comes before would be spoken by another voice
        if not self._incoming:
            await asyncio.Event().wait()  # for ever: the session ends by itself
        return self._incoming.popleft()

    async def send_text(self, data: bytes) -> None:
        """Raises `ConnectionAbortedError` at a failure, which ends the session and frees what it holds."""
        match decode_server_message(data):
            case SessionUpdated(ignored=ignored):
                self._answer.ignored += ignored
                self._accepted.set()
            case ServerError(code=NothingToSpeak.code) as error:
                self._wordless = error  # of one sentence among others: passed over
            case ServerError() as error:
                self._failure = error
                raise ConnectionAbortedError(error.message)
            case AudioDone(reason=FinishReason.TRUNCATED):
                raise ConnectionAbortedError("the model did not come to the end of the text")
            case SessionDone() as done:
                self._done = done

    async def send_bytes(self, data: bytes) -> bool:
        await self._answer.add(data)
        return False

    async def close(self, code: int, reason: str) -> None:
        pass

    def abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()

    def usage(self) -> Usage:
        """After the session: what was spoken.  Raises a `RealtimeTTSError` if it was not all of the text."""
        if self._failure is not None:
            raise typed(self._failure)
        if self._done is None:
            raise SynthesisTruncated("the speech is not complete")
        if not self._done.usage.audio_ms:
            why = self._wordless.message if self._wordless is not None else "there are no words in it"
            raise NothingToSpeak(why, param="input")
        return self._done.usage


def typed(error: ServerError) -> RealtimeTTSError:
    """The typed error behind an error message of the session."""
    field, _, rest = error.message.partition(": ")
    param = field if field in SessionConfig.__struct_fields__ else field_of(error.message)
    result = _KINDS[error.code](rest if param == field else error.message)
    result.param = "input" if error.code in (TextTooLong.code, NothingToSpeak.code) else param
    result.retry_after_s = None if error.retry_after_ms is None else error.retry_after_ms / 1000
    return result


def _kinds() -> dict[str, type[RealtimeTTSError]]:
    kinds: dict[str, type[RealtimeTTSError]] = {}
    waiting = deque(RealtimeTTSError.__subclasses__())
    while waiting:
        kind = waiting.popleft()
        kinds.setdefault(kind.code, kind)
        waiting += kind.__subclasses__()
    return kinds


_KINDS = _kinds()


# -- The answer -------------------------------------------------------------------------------------------------------


class Answer:
    """One encoder for all sentences, so that they make one file; its bytes as chunks, as events, or all at the end."""

    def __init__(self, request: web.Request, wish: Wish, info: ModelInfo, write_timeout_s: float) -> None:
        self.ignored = wish.ignored
        self._request = request
        self._wish = wish
        self._info = info
        self._write_timeout_s = write_timeout_s
        encoder = make_encoder(wish.format, info.sample_rate_hz, streaming=not wish.whole)
        if wish.format.encoding is Encoding.OPUS and not wish.whole:
            # Bare packets, which HTTP does not keep apart: here they come in the pages of an Ogg file.
            encoder = OggOpusStream(encoder, wish.format.sample_rate_hz, serial=secrets.randbits(32))
        self._encoder = encoder
        self._response: web.StreamResponse | None = None

    async def add(self, pcm: bytes) -> None:
        """The session's next sound.  Waits while the client does not read; raises `ConnectionError`."""
        await self._send(self._encoder.encode(pcm_samples(pcm)))

    async def finish(self, usage: Usage) -> web.StreamResponse:
        """The rest.  Raises `ConnectionError` where the client has left, or does not read."""
        packets = await asyncio.to_thread(self._encoder.flush)  # a whole file takes its time
        try:
            # Who plays while reading may take as long as the sound is.
            async with asyncio.timeout(usage.audio_ms / 1000 + self._write_timeout_s):
                response = await self._prepare(_size_bytes(packets) if self._wish.whole else None)
                await self._send(packets)
                if self._wish.sse:
                    await response.write(_event({"type": "speech.audio.done", "usage": self._told(usage)}))
                await response.write_eof()
        except TimeoutError:
            raise ConnectionAbortedError("the client does not read") from None
        return response

    async def fail(self, error: RealtimeTTSError) -> web.StreamResponse:
        """Sends an error.  After the first byte nothing but a broken connection keeps a part from looking whole."""
        if self._response is None:
            return error_response(error)
        if not self._wish.sse:
            return self.drop()
        try:
            async with asyncio.timeout(self._write_timeout_s):
                await self._response.write(_event({"type": "error", "error": error_fields(error)}))
                await self._response.write_eof()
        except (ConnectionError, TimeoutError):
            return self.drop()
        return self._response

    def drop(self) -> web.StreamResponse:
        """Breaks the connection off, without the last chunk: nobody can take a part for the whole."""
        if self._request.transport is not None:
            self._request.transport.abort()
        return self._response or web.Response(status=499)  # never seen: 499 is what nginx logs for it

    def _told(self, usage: Usage) -> Fields:
        """OpenAI counts tokens, and so that its clients find some: characters go in, codec frames come out."""
        frames = round(usage.audio_ms / 1000 / self._info.frame_s)
        return {
            "input_tokens": usage.characters,
            "output_tokens": frames,
            "total_tokens": usage.characters + frames,
            "characters": usage.characters,
            "audio_ms": usage.audio_ms,
        }

    async def _send(self, packets: list[Packet]) -> None:
        data = b"".join(packet.data for packet in packets)
        for at in range(0, len(data), PIECE_BYTES):
            piece = data[at : at + PIECE_BYTES]
            if self._wish.sse:
                piece = _event({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()})
            response = await self._prepare()
            await response.write(piece)

    async def _prepare(self, size_bytes: int | None = None) -> web.StreamResponse:
        """Sends the head, once there is something to send: until then an error still has its own status."""
        if self._response is None:
            mime_type = "text/event-stream" if self._wish.sse else self._wish.format.mime_type
            response = web.StreamResponse(headers={"Content-Type": mime_type, "X-Accel-Buffering": "no"})
            if self.ignored:
                response.headers[IGNORED_HEADER] = _as_header(self.ignored)
            if size_bytes is None:
                response.enable_chunked_encoding()
            else:
                response.content_length = size_bytes
            self._response = response
            await response.prepare(self._request)
        return self._response


def _size_bytes(packets: list[Packet]) -> int:
    return sum(len(packet.data) for packet in packets)


def _event(fields: Fields) -> bytes:
    return b"data: " + msgspec.json.encode(fields) + b"\n\n"


def _as_header(names: tuple[str, ...]) -> str:
    """Names are a client's: nothing but letters of theirs may come back in a header."""
    safe = (re.sub(r"[^A-Za-z0-9_.-]", "?", name[:40]) for name in dict.fromkeys(names))
    return ", ".join(safe)[:1000]
