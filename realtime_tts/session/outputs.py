"""What a session wants done, in order: the whole vocabulary between the sans-I/O core and its shell."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.session.messages import AnyServerMessage

if TYPE_CHECKING:
    from realtime_tts.session.utterance import SentenceJob, Utterance


@dataclass(frozen=True, slots=True)
class Submit:
    request: SynthesisRequest


@dataclass(frozen=True, slots=True)
class EndStream:
    """The listener has left: whatever the engine still does for it ends, and is forgotten."""

    stream_id: str


@dataclass(frozen=True, slots=True)
class Send:
    message: AnyServerMessage


@dataclass(frozen=True, slots=True)
class SendAudio:
    """One binary frame.  `duration_s` is what it holds of sound; `model_samples` the same at the model's rate."""

    job: "SentenceJob"
    data: bytes
    duration_s: float
    model_samples: int


@dataclass(frozen=True, slots=True)
class SendSentenceDone:
    """Becomes `audio.done` when its turn to be sent has come: its figures are those of what was sent before it."""

    job: "SentenceJob"


@dataclass(frozen=True, slots=True)
class SendUtteranceDone:
    """Becomes `session.done` when its turn to be sent has come."""

    utterance: "Utterance"


@dataclass(frozen=True, slots=True)
class Close:
    code: int
    reason: str


Output: TypeAlias = Submit | EndStream | Send | SendAudio | SendSentenceDone | SendUtteranceDone | Close


@dataclass(frozen=True, slots=True)
class Routed:
    """For the engine: so much more of a request went to its listener, who will run dry at `playout_end_s`."""

    request_id: str
    samples: int
    playout_end_s: float
