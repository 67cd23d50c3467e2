"""Speech over HTTP: from an OpenAI-shaped request to a session's inputs, and from its events to one response."""

import asyncio
import base64
import json
import logging
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, TypeAlias

import msgspec
from aiohttp import web
from msgspec import Struct

from realtime_tts.audio.encoder import Encoder, Packet, make_encoder
from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.audio.ogg import OggOpusStream
from realtime_tts.engine.api import ModelInfo
from realtime_tts.errors import (
    InternalError,
    InvalidMessage,
    NothingToSpeak,
    RealtimeTTSError,
    SynthesisTruncated,
    TextTooLong,
)
from realtime_tts.frontends.native.decode import to_configure
from realtime_tts.frontends.native.messages import SessionConfig
from realtime_tts.frontends.openai.errors import error_fields, from_msgspec
from realtime_tts.session.events import (
    AudioChunk,
    ConfigApplied,
    Failed,
    SentenceFailed,
    SessionEvent,
    UtteranceDone,
)
from realtime_tts.session.frontend import Frame, FrontEnd
from realtime_tts.session.inputs import Close, Configure, Done, SessionInput, Text
from realtime_tts.session.runner import SessionRunner

log = logging.getLogger(__name__)

IGNORED_HEADER = "X-Realtime-TTS-Ignored"
"""Names the fields that have no effect."""

PIECE_BYTES = 48 * 1024

_LENGTH_IN_FRONT = (Encoding.WAV, Encoding.FLAC)
"""Streamed, their header says that the length is unknown: players accept that, many file readers do not."""

_OWN_FIELDS = {
    *("voice", "speaker", "response_format", "sample_rate", "stream_audio"),
    *("frame_header", "word_timestamps", "timestamps_as", "on_new_context", "max_buffer_delay_ms", "streaming_mode"),
    *("modalities", "input_sample_rate", "turn_detection"),
}
SESSION_FIELDS = frozenset(SessionConfig.__struct_fields__) - _OWN_FIELDS
"""Fields of `session.config` that mean the same here; the session checks their values."""

Fields: TypeAlias = dict[str, Any]
"""A JSON object."""


class VoiceId(Struct, frozen=True):
    id: str


class SpeechRequest(Struct, frozen=True, kw_only=True):
    """The fields that are not a session's."""

    input: str
    voice: str | VoiceId | None = None
    speaker: str | None = None
    """Another name of `voice`."""
    response_format: str = "mp3"
    """OpenAI's default."""
    sample_rate: int | None = None
    stream: bool | None = None
    """Default: false for wav and flac, whose length is in their header, true for all others."""
    stream_format: Literal["audio", "sse"] = "audio"


@dataclass(frozen=True, slots=True)
class Speech:
    """A request for speech, validated as far as possible without a session."""

    text: str
    config: Configure
    audio_format: AudioFormat
    whole: bool
    """The response begins when all audio is made."""
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


def parse_speech(
    fields: Fields,
    info: ModelInfo,
    resolve_voice: Callable[[str], Fields],
    *,
    max_chars: int,
    max_whole_chars: int,
    text_filters: tuple[str, ...] = (),
) -> Speech:
    """`resolve_voice` returns the fields of `session.config` for a voice; `text_filters` are the default.

    Raises a `RealtimeTTSError`.
    """
    own = {name: value for name, value in fields.items() if name in SpeechRequest.__struct_fields__}
    config: Fields = {"text_filters": text_filters} if text_filters else {}
    config |= {name: value for name, value in fields.items() if name in SESSION_FIELDS}
    ignored = [name for name in fields if name not in own and name not in config]
    if "instructions" in config and "instructions" not in info.fields:
        # OpenAI's own models differ in whether they follow them, and none refuses them.
        del config["instructions"]
        ignored.append("instructions")
    try:
        asked = msgspec.convert(own, SpeechRequest)
        voice = asked.voice.id if isinstance(asked.voice, VoiceId) else asked.voice or asked.speaker
        if voice is not None:
            config |= resolve_voice(voice)
        message = msgspec.convert(config, SessionConfig)
    except msgspec.ValidationError as error:
        raise from_msgspec(error) from None
    audio_format = _format(asked, info)
    sse = asked.stream_format == "sse"
    streamed = asked.stream if asked.stream is not None else audio_format.encoding not in _LENGTH_IN_FRONT
    whole = not streamed and not sse
    _check_text(asked.input, max_whole_chars if whole else max_chars)
    # The session's own format has no effect: this front end encodes all sentences as one.
    # Only who asks for a stream is known to listen to it: most clients wait for the whole response, in any format.
    live = asked.stream is True or sse
    configure = replace(to_configure(message), stream_audio=True, live=live)
    return Speech(asked.input, configure, audio_format, whole, sse, tuple(ignored))


def _format(asked: SpeechRequest, info: ModelInfo) -> AudioFormat:
    name, rate_hz = asked.response_format, asked.sample_rate
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


# -- The session's front end ------------------------------------------------------------------------------------------

OpenSession: TypeAlias = Callable[[web.Request, FrontEnd], AbstractAsyncContextManager[SessionRunner]]
"""A session on the server, with the runner that serves it; it uses capacity until the block ends.

WebSockets use the same: the server counts all sessions together.  Raises a `RealtimeTTSError` if it is refused.
"""


async def respond(
    request: web.Request, speech: Speech, info: ModelInfo, open_session: OpenSession, write_timeout_s: float
) -> web.StreamResponse:
    """Speaks the text and responds.  Raises a `RealtimeTTSError` if an error occurs before the response has begun."""
    front_end = SpeechFrontEnd(request, speech, info, write_timeout_s)
    try:
        async with open_session(request, front_end) as runner:
            await runner.run()
            return await front_end.finish()
    except ConnectionError:
        return front_end.drop()  # the client has disconnected
    except RealtimeTTSError as error:
        return await front_end.fail(error)
    except Exception:
        log.exception("a request for speech failed")
        return await front_end.fail(InternalError("something went wrong on the server"))


class SpokenFile:
    """One text in, the bytes of one file out: one encoder for all sentences.  Subclasses send the bytes."""

    def __init__(self, speech: Speech, info: ModelInfo) -> None:
        self._speech = speech
        self._info = info
        self._encoder = self._make_encoder()
        self._ignored = speech.ignored
        self._inputs: Iterator[Iterable[SessionInput]] = iter(((speech.config,), (Text(speech.text), Done(), Close())))
        self._accepted = asyncio.Event()
        self._accepted.set()
        self._failure: RealtimeTTSError | None = None
        self._wordless: RealtimeTTSError | None = None
        self._done: UtteranceDone | None = None

    def _make_encoder(self) -> Encoder:
        audio_format, whole = self._speech.audio_format, self._speech.whole
        encoder = make_encoder(audio_format, self._info.sample_rate_hz, streaming=not whole)
        if audio_format.encoding is Encoding.OPUS and not whole:
            # Bare packets, which HTTP does not separate: here they come in the pages of an Ogg file.
            return OggOpusStream(encoder, audio_format.sample_rate_hz, serial=secrets.randbits(32))
        return encoder

    async def receive(self) -> Iterable[SessionInput] | None:
        await self._accepted.wait()  # text before that would be spoken with another configuration
        items = next(self._inputs, None)
        if items is None:
            await asyncio.Event().wait()  # for ever: the session ends by itself
        self._accepted.clear()
        return items

    def encode(self, event: SessionEvent) -> Iterable[Frame]:
        """Raises `ConnectionAbortedError` at a failure, which ends the session and frees what it holds."""
        match event:
            case AudioChunk(samples=samples):
                return self._frames(self._encoder.encode(samples), len(samples) / self._info.sample_rate_hz)
            case ConfigApplied(ignored=ignored):
                self._ignored += ignored
                self._accepted.set()
            case SentenceFailed(error=NothingToSpeak() as error):
                self._wordless = error  # of one sentence among others: skipped
            case SentenceFailed(error=error) | Failed(error=error):
                self._failure = error
                raise ConnectionAbortedError(error.message)
            case UtteranceDone():
                self._done = event
        return ()

    def _frames(self, packets: list[Packet], audio_s: float = 0.0) -> Iterator[Frame]:
        """Pieces of bounded size, the last one with all of the audio's duration; it may be empty."""
        data = b"".join(packet.data for packet in packets)
        last = max(0, len(data) - 1) // PIECE_BYTES * PIECE_BYTES
        for at in range(0, last + 1, PIECE_BYTES):
            piece = data[at : at + PIECE_BYTES]
            if self._speech.sse and piece:
                piece = _sse({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()})
            yield Frame(piece, is_binary=True, audio_s=audio_s if at == last else 0.0)

    async def close(self, code: int, reason: str) -> None:
        pass  # the file ends later, with the encoder's rest

    def _check_spoken(self) -> UtteranceDone:
        """Raises a `RealtimeTTSError` if not all of the text was spoken."""
        if self._failure is not None:
            raise self._failure
        if self._done is None:
            raise SynthesisTruncated("the speech has not reached its end")
        if not self._done.report.audio_s:
            raise self._wordless or NothingToSpeak("there are no words in it", param="input")
        return self._done


class SpeechFrontEnd(SpokenFile):
    """One text in, one response out."""

    def __init__(self, request: web.Request, speech: Speech, info: ModelInfo, write_timeout_s: float) -> None:
        super().__init__(speech, info)
        self._request = request
        self._write_timeout_s = write_timeout_s
        self._response: web.StreamResponse | None = None

    async def send(self, frame: Frame) -> None:
        if frame.data:
            response = await self._prepare()
            await response.write(frame.data)

    def abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()

    async def finish(self) -> web.StreamResponse:
        """The rest.

        Raises a `RealtimeTTSError` if not all of the text was spoken, `ConnectionError` if the client has left.
        """
        done = self._check_spoken()
        packets = await asyncio.to_thread(self._encoder.flush)  # a whole file takes time
        try:
            # A client that plays while it reads may take as long as the audio lasts.
            async with asyncio.timeout(done.report.audio_s + self._write_timeout_s):
                size_bytes = sum(len(packet.data) for packet in packets)
                response = await self._prepare(size_bytes if self._speech.whole else None)
                for frame in self._frames(packets):
                    await self.send(frame)
                if self._speech.sse:
                    await response.write(_sse({"type": "speech.audio.done", "usage": self._usage(done)}))
                await response.write_eof()
        except TimeoutError:
            raise ConnectionAbortedError("the client does not read") from None
        return response

    async def fail(self, error: RealtimeTTSError) -> web.StreamResponse:
        """Reports an error.  After the first byte only a broken connection keeps a part from looking complete."""
        if self._failure is not None:
            error = self._failure
        if self._response is None:
            raise error
        if not self._speech.sse:
            return self.drop()
        try:
            async with asyncio.timeout(self._write_timeout_s):
                await self._response.write(_sse({"type": "error", "error": error_fields(error)}))
                await self._response.write_eof()
        except (ConnectionError, TimeoutError):
            return self.drop()
        return self._response

    def drop(self) -> web.StreamResponse:
        """Breaks the connection without the last chunk, so that an incomplete response cannot look complete."""
        self.abort()
        return self._response or web.Response(status=499)  # never sent: 499 is what nginx logs for it

    def _usage(self, done: UtteranceDone) -> Fields:
        """OpenAI counts tokens, and its clients expect some: characters in, codec frames out."""
        frames = round(done.report.audio_s / self._info.frame_s)
        return {
            "input_tokens": done.characters,
            "output_tokens": frames,
            "total_tokens": done.characters + frames,
            "characters": done.characters,
            "audio_ms": round(done.report.audio_s * 1000, 1),
        }

    async def _prepare(self, size_bytes: int | None = None) -> web.StreamResponse:
        """Sends the headers, once there is something to send: until then an error still has its own status."""
        if self._response is None:
            mime_type = "text/event-stream" if self._speech.sse else self._speech.audio_format.mime_type
            response = web.StreamResponse(headers={"Content-Type": mime_type, "X-Accel-Buffering": "no"})
            if self._ignored:
                response.headers[IGNORED_HEADER] = as_header(self._ignored)
            if size_bytes is None:
                response.enable_chunked_encoding()
            else:
                response.content_length = size_bytes
            self._response = response
            await response.prepare(self._request)
        return self._response


def _sse(fields: Fields) -> bytes:
    return b"data: " + msgspec.json.encode(fields) + b"\n\n"


def as_header(names: tuple[str, ...]) -> str:
    """The names are the client's: only safe characters of them are sent back in a header."""
    safe = (re.sub(r"[^A-Za-z0-9_.-]", "?", name[:40]) for name in dict.fromkeys(names))
    return ", ".join(safe)[:1000]
