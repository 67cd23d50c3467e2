"""Chat completions over HTTP: answers as text and speech, whole or as a stream of server-sent events."""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
from aiohttp import web

from realtime_tts.audio.encoder import Packet, make_encoder
from realtime_tts.clock import Clock
from realtime_tts.engine.api import ModelInfo, TextEnd
from realtime_tts.errors import (
    InternalError,
    ModelNotFound,
    NotFound,
    Overloaded,
    RealtimeTTSError,
    SynthesisTruncated,
)
from realtime_tts.frontends.engines import Engines
from realtime_tts.frontends.openai.answer_store import AnswerStore
from realtime_tts.frontends.openai.api import OpensSession
from realtime_tts.frontends.openai.chat_request import (
    Chat,
    FetchesUrl,
    Fields,
    Reader,
    chat_of,
    parse_request,
    with_shape,
)
from realtime_tts.frontends.openai.chat_response import AnswerShape
from realtime_tts.frontends.openai.errors import error_fields
from realtime_tts.frontends.openai.request_body import deadline, read_json_body
from realtime_tts.frontends.openai.speech import IGNORED_HEADER, decode_fields
from realtime_tts.session.events import (
    AudioChunk,
    ConfigApplied,
    Failed,
    ResponseText,
    ResponseTextDone,
    SentenceFailed,
    SessionEvent,
    UtteranceDone,
)
from realtime_tts.session.frontend import Frame
from realtime_tts.session.inputs import Close, Configure, Conversation, SessionInput
from realtime_tts.text.unicode import printable

log = logging.getLogger(__name__)

CHAT_PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class ChatLimits:
    max_body_bytes: int = 16 * 1024 * 1024
    """Of a request with its audio and images in base64."""
    small_body_bytes: int = 256 * 1024
    max_large_bodies: int = 16
    """Larger requests that are received at once; one more is refused."""
    max_decoding: int = 4
    """Requests with audio or images that are decoded at once: each may need some hundred megabytes."""
    body_timeout_s: float = 60.0
    write_timeout_s: float = 30.0
    """For a client to read what is written, beyond the duration of its audio."""


class ChatApi:
    """The route of chat completions.  It exists on every server, and is 404 where no model answers."""

    def __init__(
        self,
        engines: Engines,
        open_session: OpensSession,
        clock: Clock,
        limits: ChatLimits | None = None,
        *,
        fetch_url: FetchesUrl | None = None,
    ) -> None:
        """`fetch_url` fetches audio and images by URL; None refuses URLs."""
        self._engines = engines
        self._open_session = open_session
        self._limits = limits or ChatLimits()
        self._fetch_url = fetch_url
        self._answers = AnswerStore(clock)
        self._decoding = asyncio.Semaphore(self._limits.max_decoding)
        self.large_bodies = 0
        """That are being received."""

    def routes(self) -> list[web.RouteDef]:
        return [web.post(CHAT_PATH, self.complete)]

    async def complete(self, request: web.Request) -> web.StreamResponse:
        fields = decode_fields(await self._body(request))
        asked, ignored = parse_request(fields)
        asked = with_shape(asked, request.query.get("stream_shape"))
        model = self._model_of(asked.model)
        info = self._engines[model].info
        async with self._decoding:
            turns = await Reader(info, self._answers.text, self._fetch_url).turns(asked.messages)
        chat = chat_of(asked, ignored, turns, info)
        front_end = ChatFrontEnd(request, chat, info, model, self._answers, self._limits.write_timeout_s)
        return await self._respond(request, front_end, model)

    async def _body(self, request: web.Request) -> bytes:
        limits, size_bytes = self._limits, request.content_length
        is_large = size_bytes is None or size_bytes > limits.small_body_bytes
        if is_large and self.large_bodies >= limits.max_large_bodies:
            raise Overloaded(f"{limits.max_large_bodies} large requests are being received")
        self.large_bodies += is_large
        try:
            async with deadline(limits.body_timeout_s):
                return await read_json_body(request, limits.max_body_bytes)
        finally:
            self.large_bodies -= is_large

    def _model_of(self, name: str | None) -> str:
        """The engine that answers.  Clients send names of OpenAI's models: an unknown one is the first that answers."""
        answering = [each for each in self._engines if self._engines[each].info.answers]
        if not answering:
            raise NotFound("no model of this server answers conversations")
        if name in self._engines and name not in answering:
            listed = ", ".join(answering)
            raise ModelNotFound(f"{printable(str(name))} answers no conversations; there is {listed}", param="model")
        return name if name in answering else answering[0]

    async def _respond(self, request: web.Request, front_end: "ChatFrontEnd", model: str) -> web.StreamResponse:
        try:
            async with self._open_session(request, front_end, model=model) as runner:
                await runner.run()
                return await front_end.finish()
        except ConnectionError:
            return front_end.drop()  # the client has disconnected
        except RealtimeTTSError as error:
            return await front_end.fail(error)
        except Exception:
            log.exception("a chat completion failed")
            return await front_end.fail(InternalError("something went wrong on the server"))


class ChatFrontEnd:
    """One conversation in, one answer out."""

    def __init__(
        self,
        request: web.Request,
        chat: Chat,
        info: ModelInfo,
        model: str,
        answers: AnswerStore,
        write_timeout_s: float,
    ) -> None:
        self._request = request
        self._chat = chat
        self._info = info
        self._answers = answers
        self._write_timeout_s = write_timeout_s
        self._shape = AnswerShape(chat, model)
        self._encoder = make_encoder(chat.encoder_format, info.sample_rate_hz, streaming=chat.stream)
        self._ignored = chat.ignored
        self._inputs: Iterator[Iterable[SessionInput]] = iter(
            (
                (Configure(stream_audio=True, live=chat.stream, modalities=chat.modalities, voice=chat.voice),),
                (Conversation(chat.turns, chat.sampling), Close()),
            )
        )
        self._accepted = asyncio.Event()
        self._accepted.set()
        self._text: list[str] = []
        self._text_end: TextEnd | None = None
        self._is_truncated = False
        self._failure: RealtimeTTSError | None = None
        self._done: UtteranceDone | None = None
        self._response: web.StreamResponse | None = None

    # -- For the session -----------------------------------------------------------------------------------------------

    async def receive(self) -> Iterable[SessionInput] | None:
        await self._accepted.wait()  # a conversation before that would be answered with another configuration
        items = next(self._inputs, None)
        if items is None:
            await asyncio.Event().wait()  # for ever: the session ends by itself
        self._accepted.clear()
        return items

    def encode(self, event: SessionEvent) -> Iterable[Frame]:
        """Raises `ConnectionAbortedError` at a failure, which ends the session and frees what it holds."""
        match event:
            case AudioChunk(samples=samples):
                return self._audio(self._encoder.encode(samples), len(samples) / self._info.sample_rate_hz)
            case ResponseText(delta=delta):
                self._text.append(delta)
                return self._frames(self._shape.text(delta))
            case ResponseTextDone(reason=reason):
                self._text_end = reason
            case ConfigApplied(ignored=ignored):
                self._ignored += ignored
                self._accepted.set()
            case SentenceFailed(error=SynthesisTruncated()):
                self._is_truncated = True  # the speech model has reached its limit: all that it made was sent
            case SentenceFailed(error=error) | Failed(error=error):
                self._failure = error
                raise ConnectionAbortedError(error.message)
            case UtteranceDone():
                self._done = event
        return ()

    def _audio(self, packets: list[Packet], audio_s: float = 0.0) -> Iterable[Frame]:
        data = b"".join(packet.data for packet in packets)
        if not self._chat.stream or not data:
            return (Frame(b"", is_binary=True, audio_s=audio_s),)
        return self._frames(self._shape.audio(data), audio_s)

    def _frames(self, chunks: Iterable[Fields], audio_s: float = 0.0) -> Iterable[Frame]:
        if not self._chat.stream:
            return ()
        data = b"".join(_sse(chunk) for chunk in chunks)
        return (Frame(data, is_binary=True, audio_s=audio_s),)

    async def send(self, frame: Frame) -> None:
        if frame.data:
            response = await self._prepare()
            await response.write(frame.data)

    async def close(self, code: int, reason: str) -> None:
        pass  # the response ends in `finish`

    def abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()

    # -- The response --------------------------------------------------------------------------------------------------

    async def finish(self) -> web.StreamResponse:
        """The rest.

        Raises a `RealtimeTTSError` if the answer is not complete, `ConnectionError` if the client has left.
        """
        if self._failure is not None:
            raise self._failure
        done, end = self._done, self._text_end
        if done is None or end is None or end is TextEnd.ERROR:
            raise SynthesisTruncated("the answer has not reached its end")
        if self._is_truncated:
            end = TextEnd.LENGTH
        packets = await asyncio.to_thread(self._encoder.flush)  # a whole file takes time
        if self._chat.has_audio:
            self._answers.add(self._shape.audio_id, "".join(self._text))
        usage = self._usage(done)
        if not self._chat.stream:
            audio = b"".join(packet.data for packet in packets)
            body = self._shape.whole("".join(self._text), audio, end, usage)
            return web.json_response(body=msgspec.json.encode(body), headers=self._headers())
        try:
            async with asyncio.timeout(done.report.audio_s + self._write_timeout_s):
                for frame in self._audio(packets):
                    await self.send(frame)
                response = await self._prepare()
                for chunk in self._shape.end(end):
                    await response.write(_sse(chunk))
                if self._chat.include_usage:
                    await response.write(_sse(self._shape.usage(usage)))
                await response.write(b"data: [DONE]\n\n")
                await response.write_eof()
        except TimeoutError:
            raise ConnectionAbortedError("the client does not read") from None
        return response

    async def fail(self, error: RealtimeTTSError) -> web.StreamResponse:
        """Reports an error: with its own status before the first token, after it as an event."""
        error = self._failure or error
        if self._response is None:
            raise error
        try:
            async with asyncio.timeout(self._write_timeout_s):
                await self._response.write(_sse({"error": error_fields(error)}))
                await self._response.write_eof()
        except (ConnectionError, TimeoutError):
            return self.drop()
        return self._response

    def drop(self) -> web.StreamResponse:
        """Breaks the connection, so that an incomplete response cannot look complete."""
        self.abort()
        return self._response or web.Response(status=499)  # never sent: 499 is what nginx logs for it

    def _usage(self, done: UtteranceDone) -> Fields:
        """OpenAI counts the text and the audio of an answer together: here tokens, and codec frames."""
        prompt, text = done.input_tokens or 0, done.output_tokens or 0
        frames = round(done.report.audio_s / self._info.frame_s)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": text + frames,
            "total_tokens": prompt + text + frames,
            "completion_tokens_details": {"text_tokens": text, "audio_tokens": frames, "reasoning_tokens": 0},
        }

    def _headers(self) -> dict[str, str]:
        listed = ", ".join(name[:40] for name in dict.fromkeys(self._ignored) if name.isidentifier())
        return {IGNORED_HEADER: listed[:1000]} if listed else {}

    async def _prepare(self) -> web.StreamResponse:
        """Sends the headers, once there is something to send: until then an error still has its own status."""
        if self._response is None:
            response = web.StreamResponse(
                headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no", **self._headers()}
            )
            response.enable_chunked_encoding()
            self._response = response
            await response.prepare(self._request)
            for chunk in self._shape.begin():
                await response.write(_sse(chunk))
        return self._response


def _sse(fields: Fields) -> bytes:
    return b"data: " + msgspec.json.encode(fields) + b"\n\n"
