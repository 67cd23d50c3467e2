"""The JSON messages of protocol.md as types."""

from typing import ClassVar, TypeAlias, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

PROTOCOL = "realtime-tts.v1"
"""The WebSocket subprotocol; a client may omit it."""
STREAM_PATH = "/v1/audio/speech/stream"
AUDIO_TIMESTAMPS, AUDIO_CHUNK = "audio.timestamps", "audio.chunk"
"""The values of `timestamps_as`: messages of their own, or the messages of the audio."""

# -- Client -> server -------------------------------------------------------------------------------------------------


class ClientMessage(Struct, frozen=True):
    """A message of a client, named by its `type`."""

    type: ClassVar[str]


class TurnDetection(Struct, frozen=True):
    """Where the server finds the ends of turns by itself: not supported yet."""

    type: str


class SessionConfig(ClientMessage, frozen=True, kw_only=True):
    """Absent fields keep their value; null restores the default."""

    type = "session.config"
    model: str | UnsetType | None = UNSET
    voice: str | UnsetType | None = UNSET
    speaker: str | UnsetType | None = UNSET
    task_type: str | UnsetType | None = UNSET
    language: str | UnsetType | None = UNSET
    instructions: str | UnsetType | None = UNSET
    ref_audio: str | UnsetType | None = UNSET
    ref_text: str | UnsetType | None = UNSET
    x_vector_only_mode: bool | UnsetType | None = UNSET
    speaker_embedding: tuple[float, ...] | UnsetType | None = UNSET
    response_format: str | UnsetType | None = UNSET
    sample_rate: int | UnsetType | None = UNSET
    stream_audio: bool | UnsetType | None = UNSET
    speed: float | UnsetType | None = UNSET
    split_granularity: str | UnsetType | None = UNSET
    max_buffer_delay_ms: float | UnsetType | None = UNSET
    text_filters: tuple[str, ...] | UnsetType | None = UNSET
    pronunciations: dict[str, str] | UnsetType | None = UNSET
    streaming_mode: str | UnsetType | None = UNSET
    initial_codec_chunk_frames: int | UnsetType | None = UNSET
    max_new_tokens: int | UnsetType | None = UNSET
    seed: int | UnsetType | None = UNSET
    temperature: float | UnsetType | None = UNSET
    top_k: int | UnsetType | None = UNSET
    top_p: float | UnsetType | None = UNSET
    repetition_penalty: float | UnsetType | None = UNSET
    word_timestamps: bool | UnsetType | None = UNSET
    timestamps_as: str | UnsetType | None = UNSET
    frame_header: bool | UnsetType | None = UNSET
    continuity_threshold_ms: float | UnsetType | None = UNSET
    on_new_context: str | UnsetType | None = UNSET
    modalities: tuple[str, ...] | UnsetType | None = UNSET
    input_sample_rate: int | UnsetType | None = UNSET
    turn_detection: TurnDetection | UnsetType | None = UNSET


class InputText(ClientMessage, frozen=True):
    type = "input.text"
    text: str
    context_id: str | None = None


class InputAudio(ClientMessage, frozen=True):
    """16-bit PCM in base64; a binary frame is the same without base64."""

    type = "input.audio"
    audio: str
    context_id: str | None = None


class InputImage(ClientMessage, frozen=True):
    """An image file, as a data URL or in base64."""

    type = "input.image"
    data: str
    context_id: str | None = None


class InputFlush(ClientMessage, frozen=True):
    type = "input.flush"
    context_id: str | None = None


class InputCommit(ClientMessage, frozen=True):
    type = "input.commit"
    commit_id: str | None = None
    context_id: str | None = None


class InputDone(ClientMessage, frozen=True):
    type = "input.done"
    context_id: str | None = None


class InputCancel(ClientMessage, frozen=True):
    type = "input.cancel"
    context_id: str | None = None
    playback_offset_ms: float | None = None


class PlaybackReport(ClientMessage, frozen=True):
    type = "playback.report"
    played_ms: float
    context_id: str | None = None
    buffered_ms: float | None = None
    underruns: int | None = None


class SessionKeepalive(ClientMessage, frozen=True):
    type = "session.keepalive"


class SessionClose(ClientMessage, frozen=True):
    type = "session.close"


CLIENT_MESSAGES: dict[str, type[ClientMessage]] = {
    message.type: message
    for message in (
        SessionConfig,
        InputText,
        InputAudio,
        InputImage,
        InputFlush,
        InputCommit,
        InputDone,
        InputCancel,
        PlaybackReport,
        SessionKeepalive,
        SessionClose,
    )
}


# -- Server -> client -------------------------------------------------------------------------------------------------


class ServerMessage(Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Fields whose value is their default None are omitted on the wire."""


class Limits(Struct, frozen=True, kw_only=True):
    max_message_bytes: int
    max_pending_chars: int
    max_utterance_chars: int
    max_sentence_chars: int
    max_contexts: int
    write_timeout_s: float
    context_idle_s: float
    idle_s: float
    session_s: float


class ConfigInForce(Struct, frozen=True, kw_only=True, omit_defaults=True):
    model: str
    voice: str | None
    task_type: str | None
    language: str
    instructions: str | None
    ref_audio: str | None
    """A digest of the recording, not the recording."""
    ref_text: str | None
    x_vector_only_mode: bool
    speaker_embedding: int | None
    """How many numbers it has."""
    response_format: str
    sample_rate: int
    stream_audio: bool
    speed: float
    split_granularity: str
    max_buffer_delay_ms: float
    text_filters: tuple[str, ...]
    pronunciations: dict[str, str]
    initial_codec_chunk_frames: int | None
    max_new_tokens: int | None
    seed: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    repetition_penalty: float | None
    word_timestamps: bool
    timestamps_as: str
    frame_header: bool
    continuity_threshold_ms: float
    on_new_context: str
    modalities: tuple[str, ...] | None = None
    """Present if the model answers, as the next one."""
    input_sample_rate: int | None = None


class SessionCreated(ServerMessage, frozen=True, kw_only=True, tag="session.created"):
    session_id: str
    protocol: str
    model: str
    voices: tuple[str, ...]
    sample_rate: int
    limits: Limits
    expires_at: float
    """Unix time in seconds."""


class SessionUpdated(ServerMessage, frozen=True, kw_only=True, tag="session.updated"):
    config: ConfigInForce
    ignored: tuple[str, ...]


class AudioStart(ServerMessage, frozen=True, kw_only=True, tag="audio.start"):
    sentence_index: int
    sentence_text: str
    format: str
    sample_rate: int
    channels: int
    utterance_index: int
    text_span: tuple[int, int]
    frame_header: bool
    """Whether the binary frames of this sentence begin with a header."""
    context_number: int
    """The number of the context in the frame header."""
    context_id: str | None = None
    pre_skip: int | None = None
    """Samples to drop from the start of the decoded audio, if the format has a delay."""
    word_timestamps: bool | None = None
    """True if the audio is sent as `audio.chunk` messages."""


class WordTiming(Struct, frozen=True, kw_only=True):
    word: str
    start_ms: float
    end_ms: float
    text_span: tuple[int, int]


class AudioTimestamps(ServerMessage, frozen=True, kw_only=True, tag="audio.timestamps"):
    sentence_index: int
    utterance_index: int
    status: str
    words: tuple[WordTiming, ...]
    context_id: str | None = None


class AudioChunkMessage(ServerMessage, frozen=True, kw_only=True, tag="audio.chunk"):
    """Audio of a sentence in place of a binary frame.  The last one of a sentence has its words and no audio."""

    utterance_index: int
    sentence_index: int
    chunk_id: int
    """From 0 in each sentence."""
    chunk_start_ms: int
    chunk_end_ms: int
    sample_rate: int
    channels: int
    audio_b64: str
    timestamps: tuple[WordTiming, ...] | None
    """Null before the last one, and if they are not known."""
    context_id: str | None = None


class SentenceMetrics(Struct, frozen=True, kw_only=True):
    """Null: nothing was measured."""

    ttfp_ms: float | None
    ttfa_ms: float | None
    rtf: float | None
    queue_ms: float | None
    chunks: int
    initial_chunk_frames: int | None
    max_underrun_ms: float
    underrun_count: int
    continuity_ok: bool | None


class AudioDone(ServerMessage, frozen=True, kw_only=True, tag="audio.done"):
    sentence_index: int
    total_bytes: int
    error: bool
    utterance_index: int
    duration_ms: float
    samples: int
    reason: str
    metrics: SentenceMetrics
    context_id: str | None = None
    sentence_text: str | None = None
    """Present if `audio.start` had only the beginning of the text."""


class TurnCommitted(ServerMessage, frozen=True, kw_only=True, tag="turn.committed"):
    """A turn is complete, and will be answered."""

    utterance_index: int
    audio_ms: float
    context_id: str | None = None


class ResponseStart(ServerMessage, frozen=True, kw_only=True, tag="response.start"):
    utterance_index: int
    response_id: str
    context_id: str | None = None


class ResponseTextDelta(ServerMessage, frozen=True, kw_only=True, tag="response.text.delta"):
    utterance_index: int
    delta: str
    context_id: str | None = None


class ResponseTextDone(ServerMessage, frozen=True, kw_only=True, tag="response.text.done"):
    utterance_index: int
    text: str
    reason: str
    context_id: str | None = None


class AudioCancelled(ServerMessage, frozen=True, kw_only=True, tag="audio.cancelled"):
    """No audio of its context follows."""

    sentence_index: int | None
    """The sentence that was being played, or None."""
    utterance_index: int | None
    text_spoken: str
    text_remaining: str
    audio_sent_ms: float
    audio_played_ms: float
    source: str
    context_id: str | None = None


class InputCommitted(ServerMessage, frozen=True, kw_only=True, tag="input.committed"):
    """Sent at once: the committed text was received, and is spoken after the text before it."""

    sentence_index: int
    """The first sentence of the committed text."""
    sentences: int
    """Sentences of the committed text; 0 if it has no words."""
    chars_committed: int
    utterance_index: int
    commit_id: str | None = None
    context_id: str | None = None


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    characters: int
    audio_ms: float
    input_tokens: int | None = None
    """Present after an answer, as the next one."""
    output_tokens: int | None = None


class Continuity(Struct, frozen=True, kw_only=True):
    ttfp_ms: float | None
    ttfa_ms: float | None
    audio_ms: float
    packets: int
    underrun_count: int
    underrun_total_ms: float
    max_underrun_ms: float
    text_starvation_ms: float
    continuity_ok: bool | None


class SessionDone(ServerMessage, frozen=True, kw_only=True, tag="session.done"):
    total_sentences: int
    utterance_index: int
    reason: str
    usage: Usage
    continuity: Continuity
    context_id: str | None = None
    outcomes: tuple[str, ...] | None = None
    """The `reason` of each sentence's `audio.done`, in order."""


class SessionExpiring(ServerMessage, frozen=True, kw_only=True, tag="session.expiring"):
    reason: str
    deadline_ms: float


class ServerWarning(ServerMessage, frozen=True, kw_only=True, tag="warning"):
    code: str
    message: str
    utterance_index: int | None = None
    context_id: str | None = None


class ServerError(ServerMessage, frozen=True, kw_only=True, tag="error"):
    code: str
    message: str
    fatal: bool
    retryable: bool
    session_id: str
    context_id: str | None = None
    utterance_index: int | None = None
    sentence_index: int | None = None
    retry_after_ms: float | None = None
    param: str | None = None
    """The field that is wrong."""


AnyServerMessage: TypeAlias = (
    SessionCreated
    | SessionUpdated
    | AudioStart
    | AudioTimestamps
    | AudioChunkMessage
    | AudioDone
    | TurnCommitted
    | ResponseStart
    | ResponseTextDelta
    | ResponseTextDone
    | AudioCancelled
    | InputCommitted
    | SessionDone
    | SessionExpiring
    | ServerWarning
    | ServerError
)

SERVER_MESSAGES: dict[str, type[AnyServerMessage]] = {
    str(message.__struct_config__.tag): message for message in get_args(AnyServerMessage)
}

encode = msgspec.json.Encoder().encode
"""A server message to UTF-8 JSON."""

_server_decoder = msgspec.json.Decoder(AnyServerMessage)


class _Tag(Struct):
    type: str


def decode_server_message(data: str | bytes) -> AnyServerMessage | None:
    """For clients: the message of a text frame, or None if its type is unknown."""
    if msgspec.json.decode(data, type=_Tag).type not in SERVER_MESSAGES:
        return None
    return _server_decoder.decode(data)
