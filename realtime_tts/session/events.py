"""Events of a session, independent of the wire protocol.  Frozen values; times in seconds.

The audio of a sentence is `SentenceStarted`, `AudioChunk`s in order, `AudioEnd`, `SentenceDone`.  A sentence is named
by its utterance's index, which is unique in its session, and its own index in the utterance.
"""

from dataclasses import dataclass
from typing import TypeAlias

from msgspec import Struct

from realtime_tts.audio.format import AudioFormat
from realtime_tts.audio.playout import ContinuityReport
from realtime_tts.engine.api import FinishReason, Samples, SynthesisMetrics, TextEnd
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.settings import SessionSettings


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """The first event of every session."""

    session_id: str
    model: str
    voices: tuple[str, ...]
    sample_rate_hz: int
    limits: SessionLimits
    expires_at_unix_s: float


@dataclass(frozen=True, slots=True)
class ConfigApplied:
    settings: SessionSettings
    model: str
    task_type: str | None
    ignored: tuple[str, ...]
    """Fields that have no effect with this model."""
    answers: bool = False
    """Whether the model answers."""
    input_rate_hz: int | None = None
    """The sample rate of audio that it reads."""


@dataclass(frozen=True, slots=True)
class SentenceStarted:
    utterance_index: int
    sentence_index: int
    context_id: str | None
    context_number: int
    text: str
    text_span: tuple[int, int]
    """`[start, end)` in the utterance's text as received."""
    audio_format: AudioFormat
    """As configured; the chunks are float32 at `sample_rate_hz`."""
    sample_rate_hz: int
    streamed: bool
    """False: the client wants the sentence's audio as one file."""
    labelled: bool
    """Frames of other contexts may arrive between its own, so each frame must state to which context it belongs."""
    timestamps_in_audio: bool = False
    """Word times are sent in the messages of the audio."""


class AudioChunk(Struct, frozen=True, gc=False):
    """The next samples of a sentence, float32 (n,) in [-1, 1]; `offset_samples` precede them.

    A Struct, since there are many: it is created in C.
    """

    utterance_index: int
    sentence_index: int
    samples: Samples
    offset_samples: int


@dataclass(frozen=True, slots=True)
class AudioEnd:
    """No audio of the sentence follows.  `failed`: the audio sent is incomplete."""

    utterance_index: int
    sentence_index: int
    failed: bool


@dataclass(frozen=True, slots=True)
class SpokenWord:
    text: str
    start_s: float
    end_s: float
    """From the first sample of its sentence."""
    text_span: tuple[int, int]
    """`[start, end)` in the utterance's text as received."""


@dataclass(frozen=True, slots=True)
class Words:
    """The times of the next words of a sentence.  `status`: ok, failed or unsupported; if not ok, there are none."""

    utterance_index: int
    sentence_index: int
    context_id: str | None
    status: str
    words: tuple[SpokenWord, ...] = ()


@dataclass(frozen=True, slots=True)
class SentenceFailed:
    """Precedes the `SentenceDone` of a sentence that failed."""

    utterance_index: int
    sentence_index: int
    context_id: str | None
    error: RealtimeTTSError


@dataclass(frozen=True, slots=True)
class SentenceDone:
    utterance_index: int
    sentence_index: int
    context_id: str | None
    full_text: str | None
    """Set if `SentenceStarted` had only the beginning of the text."""
    reason: FinishReason
    failed: bool
    report: ContinuityReport
    ttfa_s: float | None
    """Time to the first audible sample."""
    metrics: SynthesisMetrics | None
    continuity_ok: bool | None


@dataclass(frozen=True, slots=True)
class TurnCommitted:
    """A turn is complete, and is answered."""

    utterance_index: int
    audio_s: float
    """Received audio."""
    context_id: str | None


@dataclass(frozen=True, slots=True)
class ResponseStarted:
    """The model answers: its first text follows."""

    utterance_index: int
    response_id: str
    context_id: str | None


@dataclass(frozen=True, slots=True)
class ResponseText:
    """The next text of an answer; its audio comes later."""

    utterance_index: int
    delta: str
    context_id: str | None


@dataclass(frozen=True, slots=True)
class ResponseTextDone:
    """The text of an answer is complete; its audio may continue."""

    utterance_index: int
    text: str
    reason: TextEnd
    context_id: str | None


@dataclass(frozen=True, slots=True)
class TextCommitted:
    """The answer to a `Commit`, at once."""

    utterance_index: int
    context_id: str | None
    commit_id: str | None
    sentence_index: int
    """The first sentence of the text since the last commit."""
    sentences: int
    """Sentences of that text."""
    characters: int
    """Of that text as received."""


@dataclass(frozen=True, slots=True)
class SegmentDone:
    """No audio of the text before a `Commit` follows."""

    utterance_index: int
    context_id: str | None
    segment_index: int
    """Commits of the utterance before this one."""
    sentences: int
    """Sentences since the last commit."""
    total_sentences: int
    """Sentences since the beginning of the utterance."""


@dataclass(frozen=True, slots=True)
class UtteranceDone:
    utterance_index: int
    context_id: str | None
    total_sentences: int
    cancelled: bool
    characters: int
    report: ContinuityReport
    ttfa_s: float | None
    continuity_ok: bool | None
    continuity_threshold_s: float
    input_tokens: int | None = None
    """Of the conversation that was answered."""
    output_tokens: int | None = None
    """Of the text of the answer."""
    outcomes: tuple[FinishReason, ...] = ()
    """How each of its sentences ended, in order."""

    @property
    def reason(self) -> str:
        """complete, incomplete if any sentence was not spoken to its end, or cancelled."""
        if self.cancelled:
            return "cancelled"
        is_complete = all(outcome is FinishReason.COMPLETE for outcome in self.outcomes)
        return "complete" if is_complete else "incomplete"


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The answer to a `Cancel`.  No audio of the context follows."""

    context_id: str | None
    utterance_index: int | None
    sentence_index: int | None
    """The sentence at the playback position; None if no audio was sent."""
    text_spoken: str
    text_remaining: str
    audio_sent_s: float
    audio_played_s: float
    source: str
    """Of the playback position: reported by the client, or estimated."""
    requested_at_s: float


@dataclass(frozen=True, slots=True)
class Warned:
    code: str
    message: str
    utterance_index: int | None
    context_id: str | None


@dataclass(frozen=True, slots=True)
class Failed:
    """An input was rejected.  If `error.close_code` is set, the session has failed and `Closed` follows."""

    error: RealtimeTTSError
    context_id: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigRejected(Failed):
    """Nothing of a `Configure` was applied.  `refuses_text`: no utterance begins until one is accepted."""

    refuses_text: bool = False


@dataclass(frozen=True, slots=True)
class Expiring:
    """The session ends in `deadline_s`.  `reason`: idle, ttl or drain."""

    reason: str
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Closed:
    """The last event of every session.  `code` is a WebSocket close code."""

    code: int
    reason: str


SentenceEvent: TypeAlias = SentenceStarted | AudioChunk | AudioEnd | Words | SentenceFailed | SentenceDone
AnswerEvent: TypeAlias = TurnCommitted | ResponseStarted | ResponseText | ResponseTextDone
"""Only from models that answer."""
SessionEvent: TypeAlias = (
    SessionOpened
    | ConfigApplied
    | SentenceEvent
    | AnswerEvent
    | TextCommitted
    | SegmentDone
    | UtteranceDone
    | Cancelled
    | Warned
    | Failed
    | Expiring
    | Closed
)
