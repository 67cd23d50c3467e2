"""Decoding: from the frames of protocol.md to session inputs."""

import json
import math
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from realtime_tts.errors import InvalidConfig, InvalidMessage, MalformedMessage, MessageTooBig
from realtime_tts.frontends.media import data_of, decode_image
from realtime_tts.frontends.native.messages import (
    CLIENT_MESSAGES,
    ClientMessage,
    InputAudio,
    InputCancel,
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
from realtime_tts.text.unicode import printable

_FIELDS = {kind: frozenset(message.__struct_fields__) for kind, message in CLIENT_MESSAGES.items()}


def decode(data: bytes, *, is_binary: bool, max_message_bytes: int) -> SessionInput:
    """One frame to one input.

    A binary frame is audio of a turn.  Raises `MessageTooBig`, `MalformedMessage` for data that is not JSON, and
    `InvalidMessage` for JSON that is not a message of the protocol.
    """
    if len(data) > max_message_bytes:
        raise MessageTooBig(f"a message may have {max_message_bytes} bytes, this one has {len(data)}")
    if is_binary:
        return inputs.Audio(data)
    return to_input(*decode_message(data))


def decode_message(data: bytes) -> tuple[ClientMessage, tuple[str, ...]]:
    """A message, and the names of its keys that are not fields."""
    values = _json(data)
    if not isinstance(values, dict):
        raise InvalidMessage("a message is a JSON object with a `type`")
    kind = values.pop("type", None)
    if not isinstance(kind, str):
        raise InvalidMessage("the message has no `type`, or one that is not a string")
    if kind not in CLIENT_MESSAGES:
        raise InvalidMessage(f"unknown message type {kind[:80]!r}; the types are {', '.join(CLIENT_MESSAGES)}")
    fields = _FIELDS[kind]
    unknown = tuple(printable(name) for name in values if name not in fields)
    try:
        return msgspec.convert({k: v for k, v in values.items() if k in fields}, CLIENT_MESSAGES[kind]), unknown
    except msgspec.ValidationError as error:
        raise InvalidMessage(f"{kind}: {error}") from None


def to_input(message: ClientMessage, unknown: tuple[str, ...] = ()) -> SessionInput:
    """Raises `InvalidMessage` for times that are not finite or negative, and for audio and images that are not valid.

    An image takes up to a fraction of a second.
    """
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
    """The same fields, in seconds; `speaker` is another name of `voice`.  Raises `InvalidConfig`."""
    if isinstance(message.turn_detection, TurnDetection):
        raise InvalidConfig("must be null: `input.done` ends a turn", param="turn_detection")
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
        frame_header=message.frame_header,
        continuity_threshold_s=_from_ms(message.continuity_threshold_ms),
        on_new_context=message.on_new_context,
        modalities=message.modalities,
        input_rate_hz=message.input_sample_rate,
        unknown=unknown,
    )


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
