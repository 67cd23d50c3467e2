"""The JSON messages of the server in SGLang-Omni's dialect (speech_ws.py and speech_errors.py, 0.2)."""

from msgspec import Struct


class Message(Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Fields whose value is their default None are omitted on the wire."""


class SessionConfigured(Message, frozen=True, kw_only=True, tag="session.configured"):
    session_id: str
    response_format: str
    stream_audio: bool
    split_granularity: str
    ignored: tuple[str, ...]
    """Ours: fields that have no effect."""


class AudioStart(Message, frozen=True, kw_only=True, tag="audio.start"):
    id: str
    sentence_index: int
    sentence_text: str
    format: str
    sample_rate: int


class AudioDone(Message, frozen=True, kw_only=True, tag="audio.done"):
    id: str
    sentence_index: int
    total_bytes: int
    error: bool
    sentence_text: str | None = None
    """Ours: present if `audio.start` had only the beginning of the text."""


class InputCommitted(Message, frozen=True, kw_only=True, tag="input.committed"):
    """Sent after the audio of the segment: the text between two commits."""

    session_id: str
    segment_index: int
    segment_sentences: int
    total_sentences: int


class SessionDone(Message, frozen=True, kw_only=True, tag="session.done"):
    session_id: str
    total_sentences: int


class Error(Message, frozen=True, kw_only=True, tag="error"):
    message: str
    error_type: str
    """BadRequestError, or server_error."""
    param: str | None = None
    code: int | None = None
    """The HTTP status of an invalid request."""


SERVER_MESSAGES: dict[str, type[Message]] = {
    str(message.__struct_config__.tag): message
    for message in (SessionConfigured, AudioStart, AudioDone, InputCommitted, SessionDone, Error)
}
