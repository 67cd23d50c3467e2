"""Inputs of a session, independent of the wire protocol.  Frozen values; times in seconds."""

from dataclasses import dataclass, fields
from typing import TypeAlias, TypeVar

from msgspec import UNSET, UnsetType

from realtime_tts.engine.api import ImagePart, TextSampling, Turn

T = TypeVar("T")
Change: TypeAlias = T | UnsetType | None
"""A field of `Configure`: UNSET keeps the value in force, None restores the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configure:
    """A change of the session's settings.  It applies as a whole or not at all."""

    model: Change[str] = UNSET
    """The name of a loaded model, from the first `Configure` only.  Other names are ignored."""
    voice: Change[str] = UNSET
    task_type: Change[str] = UNSET
    language: Change[str] = UNSET
    instructions: Change[str] = UNSET
    ref_audio: Change[str] = UNSET
    ref_text: Change[str] = UNSET
    x_vector_only_mode: Change[bool] = UNSET
    speaker_embedding: Change[tuple[float, ...]] = UNSET
    response_format: Change[str] = UNSET
    sample_rate_hz: Change[int] = UNSET
    stream_audio: Change[bool] = UNSET
    speed: Change[float] = UNSET
    split_granularity: Change[str] = UNSET
    max_buffer_delay_s: Change[float] = UNSET
    text_filters: Change[tuple[str, ...]] = UNSET
    pronunciations: Change[dict[str, str]] = UNSET
    initial_codec_chunk_frames: Change[int] = UNSET
    max_new_tokens: Change[int] = UNSET
    seed: Change[int] = UNSET
    temperature: Change[float] = UNSET
    top_k: Change[int] = UNSET
    top_p: Change[float] = UNSET
    repetition_penalty: Change[float] = UNSET
    word_timestamps: Change[bool] = UNSET
    timestamps_in_audio: Change[bool] = UNSET
    """Word times are sent in the messages of the audio, not in messages of their own."""
    frame_header: Change[bool] = UNSET
    continuity_threshold_s: Change[float] = UNSET
    on_new_context: Change[str] = UNSET
    modalities: Change[tuple[str, ...]] = UNSET
    """Of answers: text, audio or both."""
    input_rate_hz: Change[int] = UNSET
    """The sample rate of `Audio`."""
    live: Change[bool] = UNSET
    """Chosen by the front end, not by the client.  False if nobody listens before the whole response: its requests may
    be queued for longer, behind those of live listeners."""
    unknown: tuple[str, ...] = ()
    """Names of fields that the protocol does not define: reported as ignored."""


CONFIG_FIELDS = frozenset(field.name for field in fields(Configure)) - {"unknown"}


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    context_id: str | None = None


@dataclass(frozen=True, slots=True)
class Audio:
    """Audio of a turn that is answered: 16-bit PCM, mono, at the configured rate."""

    pcm: bytes
    context_id: str | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """An image of a turn that is answered."""

    image: ImagePart
    context_id: str | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """A whole conversation, whose last turn is answered at once."""

    turns: tuple[Turn, ...]
    sampling: TextSampling
    context_id: str | None = None


@dataclass(frozen=True, slots=True)
class Flush:
    """Speak the buffered text now; the utterance stays open."""

    context_id: str | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """The same, acknowledged: by `TextCommitted` at once, by `SegmentDone` after the audio of the text."""

    commit_id: str | None = None
    context_id: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The end of an utterance."""

    context_id: str | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Barge-in: end everything of a context.  `playback_offset_s`: how much of it the client has played."""

    context_id: str | None = None
    playback_offset_s: float | None = None


@dataclass(frozen=True, slots=True)
class PlaybackReport:
    """How much of a context the client has played, and how much it still buffers."""

    played_s: float
    context_id: str | None = None
    buffered_s: float | None = None


@dataclass(frozen=True, slots=True)
class KeepAlive:
    pass


@dataclass(frozen=True, slots=True)
class Close:
    """Finish the text received so far, then close."""


AnswerInput: TypeAlias = Audio | Image | Conversation
"""Only for models that answer."""
SessionInput: TypeAlias = (
    Configure | Text | AnswerInput | Flush | Commit | Done | Cancel | PlaybackReport | KeepAlive | Close
)
ContextInput: TypeAlias = Text | AnswerInput | Flush | Commit | Done | Cancel | PlaybackReport
