"""Decoding: from the frames of protocol.md to session inputs."""

import json
import math
import re
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType, structs

from realtime_tts.errors import (
    InvalidConfig,
    InvalidMessage,
    MalformedMessage,
    MessageTooBig,
    UnreadableConfig,
)
from realtime_tts.frontends.media import data_of, decode_image
from realtime_tts.frontends.native.messages import (
    AUDIO_CHUNK,
    AUDIO_TIMESTAMPS,
    CLIENT_MESSAGES,
    ClientMessage,
    InputAudio,
    InputCancel,
    InputCommit,
    InputDone,
    InputFlush,
    InputImage,
    InputText,
    PlaybackReport,
    SessionClose,
    SessionConfig,
    SessionKeepalive,
    TurnDetection,
)
from realtime_tts.session import inputs
from realtime_tts.session.inputs import Configure, SessionInput
from realtime_tts.text.unicode import printable, without_surrogates

_FIELDS = {kind: frozenset(message.__struct_fields__) for kind, message in CLIENT_MESSAGES.items()}
_FIELD_PATH = re.compile(r" - at `\$\.(\w+)")
_MISSING_FIELD = re.compile(r"required field `(\w+)`")

Fields: TypeAlias = dict[str, Any]
"""A JSON object without its `type`."""

MAX_KEYS = 100
"""Of a message; the protocol has less than half of it."""
STREAMING_MODES: dict[str, Fields] = {
    "sentence": {},
    "token_level": {"stream_audio": True},
    "sentence_commit": {"stream_audio": True, "split_granularity": "none", "max_buffer_delay_ms": 0.0},
}
"""The fields for which each `streaming_mode` of vLLM-Omni stands (StreamingSpeechSessionConfig, main of 2026)."""


def decode(data: bytes, *, is_binary: bool, max_message_bytes: int) -> SessionInput:
    """One frame to one input.  Raises what `read_message` and `to_input` raise."""
    if is_binary:
        return audio_frame(data, max_message_bytes)
    return to_input(*read_message(data, max_message_bytes=max_message_bytes))


def audio_frame(data: bytes, max_message_bytes: int) -> SessionInput:
    """A binary frame is audio of a turn.  Raises `MessageTooBig`."""
    _check_size(data, max_message_bytes)
    return inputs.Audio(data)


def _check_size(data: bytes, max_message_bytes: int) -> None:
    if len(data) > max_message_bytes:
        raise MessageTooBig(f"a message may have {max_message_bytes} bytes, this one has {len(data)}")


def read_message(data: bytes, *, max_message_bytes: int) -> tuple[str, Fields]:
    """The type and the fields of a text frame.

    Raises `MessageTooBig`, `MalformedMessage` for data that is not JSON, and `InvalidMessage` for JSON without a type.
    """
    _check_size(data, max_message_bytes)
    fields = _json(data)
    if not isinstance(fields, dict):
        raise InvalidMessage("a message is a JSON object with a `type`")
    kind = fields.pop("type", None)
    if not isinstance(kind, str):
        raise InvalidMessage("the message has no `type`, or one that is not a string", param="type")
    return kind, fields


def to_input(kind: str, fields: Fields) -> SessionInput:
    """Raises `InvalidMessage` for a message that is not of the protocol, with the name of the field that is wrong."""
    if kind not in CLIENT_MESSAGES:
        message = f"unknown message type {printable(kind[:80])!r}; the types are {', '.join(CLIENT_MESSAGES)}"
        raise InvalidMessage(message, param="type")
    if len(fields) > MAX_KEYS:  # the names of unknown ones are sent back
        raise InvalidMessage(f"a message may have {MAX_KEYS} keys, this one has {len(fields)}")
    known = _FIELDS[kind]
    try:
        parsed = msgspec.convert({k: v for k, v in fields.items() if k in known}, CLIENT_MESSAGES[kind])
    except msgspec.ValidationError as error:
        raise _invalid(kind, str(error)) from None
    return _input(parsed, tuple(printable(name) for name in fields if name not in known))


def _invalid(kind: str, text: str) -> InvalidMessage:
    """msgspec names the field only in its text."""
    field = _FIELD_PATH.search(text) or _MISSING_FIELD.search(text)
    error = UnreadableConfig if kind == SessionConfig.type else InvalidMessage
    return error(f"{_FIELD_PATH.split(text)[0]} (in `{kind}`)", param=None if field is None else field[1])


def _input(message: ClientMessage, unknown: tuple[str, ...]) -> SessionInput:
    """An image takes up to a fraction of a second."""
    match message:
        case InputText(text=text, context_id=context_id):
            return inputs.Text(text, context_id)
        case SessionConfig():
            return to_configure(message, unknown)
        case InputAudio(audio=audio, context_id=context_id):
            return inputs.Audio(data_of(audio), context_id)
        case InputImage(data=data, context_id=context_id):
            return inputs.Image(decode_image(data_of(data)), context_id)
        case InputFlush(context_id=context_id):
            return inputs.Flush(context_id)
        case InputCommit(commit_id=commit_id, context_id=context_id):
            return inputs.Commit(None if commit_id is None else without_surrogates(commit_id), context_id)
        case InputDone(context_id=context_id):
            return inputs.Done(context_id)
        case InputCancel(context_id=context_id, playback_offset_ms=offset_ms):
            return inputs.Cancel(context_id, None if offset_ms is None else _seconds("playback_offset_ms", offset_ms))
        case PlaybackReport(played_ms=played_ms, context_id=context_id, buffered_ms=buffered_ms):
            buffered_s = None if buffered_ms is None else _seconds("buffered_ms", buffered_ms)
            return inputs.PlaybackReport(_seconds("played_ms", played_ms), context_id, buffered_s)
        case SessionKeepalive():
            return inputs.KeepAlive()
        case SessionClose():
            return inputs.Close()
    raise AssertionError(f"no input for {type(message).__name__}")


def to_configure(message: SessionConfig, unknown: tuple[str, ...] = ()) -> Configure:
    """The same fields, in seconds; `speaker` is another name of `voice`, and `streaming_mode` stands for others.

    Raises `InvalidConfig` for an unknown `streaming_mode` or `timestamps_as`, and for a `turn_detection`.
    """
    if isinstance(message.turn_detection, TurnDetection):
        raise InvalidConfig("must be null: `input.done` ends a turn", param="turn_detection")
    message = _expanded(message)
    return Configure(
        model=message.model,
        voice=message.speaker if message.voice is UNSET else message.voice,
        task_type=message.task_type,
        language=message.language,
        instructions=message.instructions,
        ref_audio=message.ref_audio,
        ref_text=message.ref_text,
        x_vector_only_mode=message.x_vector_only_mode,
        speaker_embedding=message.speaker_embedding,
        response_format=message.response_format,
        sample_rate_hz=message.sample_rate,
        stream_audio=message.stream_audio,
        speed=message.speed,
        split_granularity=message.split_granularity,
        max_buffer_delay_s=_from_ms(message.max_buffer_delay_ms),
        text_filters=message.text_filters,
        pronunciations=message.pronunciations,
        initial_codec_chunk_frames=message.initial_codec_chunk_frames,
        max_new_tokens=message.max_new_tokens,
        seed=message.seed,
        temperature=message.temperature,
        top_k=message.top_k,
        top_p=message.top_p,
        repetition_penalty=message.repetition_penalty,
        word_timestamps=message.word_timestamps,
        timestamps_in_audio=_timestamps_in_audio(message),
        frame_header=message.frame_header,
        continuity_threshold_s=_from_ms(message.continuity_threshold_ms),
        on_new_context=message.on_new_context,
        modalities=message.modalities,
        input_rate_hz=message.input_sample_rate,
        unknown=unknown,
    )


def _expanded(message: SessionConfig) -> SessionConfig:
    """With the fields of its `streaming_mode`, where the config does not have them itself."""
    mode = message.streaming_mode
    if mode is None or isinstance(mode, UnsetType):
        return message
    if mode not in STREAMING_MODES:
        words = f"must be {', '.join(STREAMING_MODES)} or null, got {printable(mode)!r}"
        raise InvalidConfig(words, param="streaming_mode")
    given = structs.asdict(message)
    return structs.replace(message, **{k: v for k, v in STREAMING_MODES[mode].items() if given[k] is UNSET})


def _timestamps_in_audio(message: SessionConfig) -> bool | UnsetType | None:
    """vLLM-Omni's clients request `audio.chunk` by `word_timestamps` alone, and their configs have a `task_type`."""
    match message.timestamps_as:
        case str(name) if name not in (AUDIO_TIMESTAMPS, AUDIO_CHUNK):
            words = f"must be {AUDIO_TIMESTAMPS} or {AUDIO_CHUNK}, got {printable(name)!r}"
            raise InvalidConfig(words, param="timestamps_as")
        case str(name):
            return name == AUDIO_CHUNK
        case UnsetType() if message.word_timestamps is True and isinstance(message.task_type, str):
            return True
        case other:
            return other


def _from_ms(value: float | UnsetType | None) -> float | UnsetType | None:
    return value if value is None or isinstance(value, UnsetType) else value / 1000


def _seconds(field: str, milliseconds: float) -> float:
    if not (math.isfinite(milliseconds) and milliseconds >= 0):
        raise InvalidMessage(f"must be a number of milliseconds, got {str(milliseconds)[:40]}", param=field)
    return milliseconds / 1000


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError):
        pass  # it may still be JSON: msgspec rejects the escape of a lone surrogate, with which a split text can end
    except RecursionError:
        raise MalformedMessage("the message is nested too deeply") from None
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError):
        raise MalformedMessage("the message is not JSON") from None
