"""What a session wants done, in order: the words between the sans-I/O core and its shell."""

from dataclasses import dataclass

from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.session.messages import AnyServerMessage


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
class Close:
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Routed:
    """For the engine: so much more of a request went to its listener, who will run dry at `playout_end_s`."""

    request_id: str
    samples: int
    playout_end_s: float
