"""Requests for chat completions: from OpenAI's JSON to a conversation, with typed errors before any token."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.engine.api import (
    AudioPart,
    ImagePart,
    ModelInfo,
    Part,
    Role,
    TextPart,
    TextSampling,
    Turn,
)
from realtime_tts.errors import InvalidConfig, InvalidMedia, InvalidMessage, RealtimeTTSError, UnsupportedFormat
from realtime_tts.frontends import media
from realtime_tts.frontends.openai.errors import from_msgspec
from realtime_tts.session.answer_turn import MAX_IMAGES
from realtime_tts.text.unicode import printable

MAX_MESSAGES = 1000
MAX_AUDIO_PARTS = 16
MAX_TOTAL_AUDIO_S = 600.0
MAX_STOPS = 4
"""As OpenAI's API has it."""
AUDIO_NAMES = {"pcm16": "pcm"}
"""OpenAI's name of the format, where it is not ours."""

N = TypeVar("N", int, float)
Fields: TypeAlias = dict[str, Any]
Shape: TypeAlias = Literal["openai", "vllm_omni"]
FetchesUrl: TypeAlias = Callable[[str], Awaitable[bytes]]
"""The bytes of a file on the web.  Raises `InvalidConfig`."""


class AudioChoice(Struct, frozen=True):
    voice: str | None = None
    format: str | None = None


class StreamOptions(Struct, frozen=True):
    include_usage: bool = False


class ResponseFormat(Struct, frozen=True):
    type: str = "text"


class EarlierAudio(Struct, frozen=True):
    id: str


class Message(Struct, frozen=True):
    role: str
    content: str | list[Fields] | None = None
    audio: EarlierAudio | None = None


class ChatRequest(Struct, frozen=True, kw_only=True):
    """The fields that have an effect; others are listed as ignored."""

    model: str | None = None
    messages: list[Message]
    modalities: list[str] | None = None
    audio: AudioChoice = AudioChoice()
    voice: str | None = None
    """vLLM-Omni's name of `audio.voice`; so is `speaker`."""
    speaker: str | None = None
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    stream_shape: Shape | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    n: int = 1
    tools: list[Fields] | None = None
    functions: list[Fields] | None = None
    response_format: ResponseFormat = ResponseFormat()
    logprobs: bool = False


@dataclass(frozen=True, slots=True)
class Chat:
    """A request for an answer, validated as far as possible without a session."""

    turns: tuple[Turn, ...]
    sampling: TextSampling
    modalities: tuple[str, ...]
    voice: str | None
    audio_format: AudioFormat
    format_name: str
    """Of the audio, as the client named it."""
    stream: bool
    include_usage: bool
    shape: Shape
    ignored: tuple[str, ...]

    @property
    def has_audio(self) -> bool:
        return "audio" in self.modalities

    @property
    def encoder_format(self) -> AudioFormat:
        """In a stream the header of a wav file is added to each chunk."""
        if self.stream and self.audio_format.encoding is Encoding.WAV:
            return AudioFormat(Encoding.PCM, self.audio_format.sample_rate_hz)
        return self.audio_format


def parse_request(fields: Fields) -> tuple[ChatRequest, tuple[str, ...]]:
    """The request and the names of fields without effect.  Raises `InvalidMessage` or `InvalidConfig`."""
    ignored = tuple(printable(name) for name in fields if name not in ChatRequest.__struct_fields__)
    try:
        request = msgspec.convert({k: v for k, v in fields.items() if k not in ignored}, ChatRequest)
    except msgspec.ValidationError as error:
        raise from_msgspec(error) from None
    _refuse_unsupported(request)
    return request, ignored


def _refuse_unsupported(request: ChatRequest) -> None:
    """What would change the answer, and is not supported: ignoring it would surprise a client."""
    if request.n != 1:
        raise InvalidMessage("must be 1: one answer for each request", param="n")
    for name, present in (("tools", request.tools), ("functions", request.functions), ("logprobs", request.logprobs)):
        if present:
            raise InvalidMessage("is not supported", param=name)
    if request.response_format.type != "text":
        raise InvalidMessage("must be text: structured output is not supported", param="response_format")
    if not request.messages:
        raise InvalidMessage("must have at least one message", param="messages")
    if len(request.messages) > MAX_MESSAGES:
        raise InvalidMessage(
            f"may have {MAX_MESSAGES} messages, this request has {len(request.messages)}", param="messages"
        )


def chat_of(request: ChatRequest, ignored: tuple[str, ...], turns: tuple[Turn, ...], info: ModelInfo) -> Chat:
    """Raises an `InvalidConfig` or `UnsupportedFormat`."""
    modalities = tuple(dict.fromkeys(("text",) if request.modalities is None else request.modalities))
    if not modalities or not set(modalities) <= {"text", "audio"}:
        raise InvalidConfig("must be text, audio or both", param="modalities")
    shape = request.stream_shape or "openai"
    name, audio_format = _format(request, shape, info, has_audio="audio" in modalities)
    return Chat(
        turns=turns,
        sampling=_sampling(request),
        modalities=modalities,
        voice=request.audio.voice or request.voice or request.speaker,
        audio_format=audio_format,
        format_name=name,
        stream=request.stream,
        include_usage=request.stream_options.include_usage,
        shape=shape,
        ignored=ignored,
    )


def _format(request: ChatRequest, shape: Shape, info: ModelInfo, *, has_audio: bool) -> tuple[str, AudioFormat]:
    default = "pcm16" if request.stream and shape == "openai" else "wav"
    name = request.audio.format or default
    streamed = ("pcm16", "pcm") if shape == "openai" else ("pcm16", "pcm", "wav")
    if request.stream and has_audio and name not in streamed:
        raise UnsupportedFormat(f"must be pcm16 in a stream, got {printable(name[:40])!r}", param="audio.format")
    ours = AUDIO_NAMES.get(name, name)
    try:
        return name, AudioFormat.parse(ours, AudioFormat.default_rate_hz(ours, info.sample_rate_hz))
    except UnsupportedFormat:
        listed = ", ".join(("pcm16", *Encoding))
        words = f"{printable(name[:40])!r} is not supported; use one of {listed}"
        raise UnsupportedFormat(words, param="audio.format") from None


def _sampling(request: ChatRequest) -> TextSampling:
    """OpenAI's ranges; temperature 0, the default here, is greedy, as the published model answers."""
    default = TextSampling()
    stop = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())
    if len(stop) > MAX_STOPS or any(not 1 <= len(text) <= 1000 for text in stop):
        raise InvalidMessage(f"may have {MAX_STOPS} texts of 1 to 1000 characters", param="stop")
    limit = request.max_tokens if request.max_completion_tokens is None else request.max_completion_tokens
    return TextSampling(
        temperature=_within("temperature", request.temperature, 0.0, 2.0, default.temperature),
        top_k=_within("top_k", request.top_k, 0, 100_000, default.top_k),
        top_p=_within("top_p", request.top_p, 0.0, 1.0, default.top_p),
        repetition_penalty=_within(
            "repetition_penalty", request.repetition_penalty, 0.1, 10.0, default.repetition_penalty
        ),
        seed=None if request.seed is None else _within("seed", request.seed, -(2**63), 2**63 - 1, 0),
        max_tokens=_within("max_completion_tokens", limit, 1, 1_000_000, default.max_tokens),
        stop=stop,
    )


def _within(param: str, value: N | None, low: N, high: N, default: N) -> N:
    if value is None:
        return default
    if not low <= value <= high:  # also refuses NaN
        raise InvalidMessage(f"must be from {low:g} to {high:g}, got {str(value)[:40]}", param=param)
    return value


# -- Messages ---------------------------------------------------------------------------------------------------------


class Reader:
    """Reads the messages of one request: decodes its media, and finds earlier answers."""

    def __init__(self, info: ModelInfo, earlier: Callable[[str], str | None], fetch_url: FetchesUrl | None) -> None:
        """`earlier` returns the text of an answer by the id of its audio; `fetch_url` is None if URLs are refused."""
        self._info = info
        self._earlier = earlier
        self._fetch_url = fetch_url
        self._images = 0
        self._audio: list[AudioPart] = []

    async def turns(self, messages: Sequence[Message]) -> tuple[Turn, ...]:
        """Raises a `RealtimeTTSError` that names the message."""
        turns = []
        for index, message in enumerate(messages):
            try:
                turns.append(await self._turn(message))
            except RealtimeTTSError as error:
                error.param = error.param or f"messages[{index}]"
                raise
        if turns[-1].role is not Role.USER:
            raise InvalidMessage("the last message must be one of the user", param="messages")
        return tuple(turns)

    async def _turn(self, message: Message) -> Turn:
        role = {"developer": "system"}.get(message.role, message.role)
        if role not in tuple(Role):
            raise InvalidMessage(f"the role {printable(message.role[:40])!r} is not supported")
        if message.audio is not None:
            return Turn(Role.ASSISTANT, (TextPart(self._earlier_text(message)),))
        content = message.content
        if content is None:
            raise InvalidMessage("has no content")
        if isinstance(content, str):
            return Turn(Role(role), (TextPart(content),))
        parts = [await self._part(part) for part in content]
        if not parts:
            raise InvalidMessage("has no content")
        if role != "user" and not all(isinstance(part, TextPart) for part in parts):
            raise InvalidMessage("only messages of the user may have audio or images")
        return Turn(Role(role), tuple(parts))

    def _earlier_text(self, message: Message) -> str:
        assert message.audio is not None, "checked by the caller"
        if message.role != "assistant":
            raise InvalidMessage("only messages of the assistant name an earlier answer")
        text = self._earlier(message.audio.id)
        if text is None:
            raise InvalidMessage("audio.id names no answer of the last hour; send its text as content")
        return text

    async def _part(self, part: Fields) -> Part:
        kind = part.get("type")
        match kind:
            case "text":
                return TextPart(_string(part, "text"))
            case "input_audio":
                return await self._audio_part(media.data_of(_string(_object(part, "input_audio"), "data")))
            case "audio_url":
                return await self._audio_part(await self._file(_string(_object(part, "audio_url"), "url")))
            case "image_url":
                return await self._image_part(await self._file(_string(_object(part, "image_url"), "url")))
        known = "text, input_audio, audio_url and image_url"
        raise InvalidMessage(f"there is no part of type {printable(str(kind)[:40])!r}; there are {known}")

    async def _file(self, url: str) -> bytes:
        if not media.is_http_url(url):
            return media.data_of(url)
        if self._fetch_url is None:
            raise InvalidMedia("this server fetches no URLs; send the file as a data URL")
        try:
            return await self._fetch_url(url)
        except InvalidConfig as error:
            raise InvalidMedia(str(error.args[0])) from None

    async def _audio_part(self, data: bytes) -> AudioPart:
        rate_hz = self._info.input_rate_hz
        if rate_hz is None or "audio" not in self._info.input_modalities:
            raise InvalidMedia(f"{self._info.name} does not accept audio")
        if len(self._audio) >= MAX_AUDIO_PARTS:
            raise InvalidMedia(f"a conversation may have {MAX_AUDIO_PARTS} parts of audio")
        part = await asyncio.to_thread(partial(media.decode_audio_part, data, rate_hz))
        self._audio.append(part)
        if sum(len(each.samples) for each in self._audio) > MAX_TOTAL_AUDIO_S * rate_hz:
            raise InvalidMedia(f"a conversation may have {MAX_TOTAL_AUDIO_S:g} s of audio")
        return part

    async def _image_part(self, data: bytes) -> ImagePart:
        if "image" not in self._info.input_modalities:
            raise InvalidMedia(f"{self._info.name} does not accept images")
        self._images += 1
        if self._images > MAX_IMAGES:
            raise InvalidMedia(f"a conversation may have {MAX_IMAGES} images")
        return await asyncio.to_thread(media.decode_image, data)


def _object(part: Fields, name: str) -> Fields:
    value = part.get(name)
    if not isinstance(value, dict):
        raise InvalidMessage(f"a part of type {name} has an object {name!r}")
    return value


def _string(part: Fields, name: str) -> str:
    value = part.get(name)
    if not isinstance(value, str):
        raise InvalidMessage(f"{name!r} must be a string")
    return value


def with_shape(request: ChatRequest, shape: str | None) -> ChatRequest:
    """With the stream's shape of the URL, which a client that cannot add fields may set.  Raises `InvalidMessage`."""
    if shape is None or request.stream_shape is not None:
        return request
    match shape:
        case "openai" | "vllm_omni":
            return msgspec.structs.replace(request, stream_shape=shape)
    raise InvalidMessage("must be openai or vllm_omni", param="stream_shape")
