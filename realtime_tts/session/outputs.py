"""What a session wants done: commands for the engine at once, and what is to be sent in its turn."""

from dataclasses import dataclass
from typing import TypeAlias

from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.session.messages import AnyServerMessage

# -- At once, whatever waits to be sent -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Submit:
    request: SynthesisRequest


@dataclass(frozen=True, slots=True)
class Extend:
    """More text of a request that was submitted without its end."""

    request_id: str
    text: str
    complete: bool


@dataclass(frozen=True, slots=True)
class CancelRequest:
    request_id: str


@dataclass(frozen=True, slots=True)
class EndStream:
    """The listener has left: whatever the engine still does for it ends, and is forgotten."""

    stream_id: str


@dataclass(frozen=True, slots=True)
class Routed:
    """So much more of a request went to its listener, who will run dry at `playout_end_s`."""

    request_id: str
    samples: int
    playout_end_s: float


@dataclass(frozen=True, slots=True)
class Playout:
    """The listener will run dry at `playout_end_s` after all: it has thrown away what it had not played."""

    stream_id: str
    playout_end_s: float


@dataclass(frozen=True, slots=True)
class FetchReference:
    """`ref_audio` of a config: to be fetched and decoded, and handed to `Session.on_reference`."""

    ref_audio: str


Command: TypeAlias = Submit | Extend | CancelRequest | EndStream | Routed | Playout | FetchReference

# -- In its turn ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    message: AnyServerMessage


@dataclass(frozen=True, slots=True)
class Close:
    code: int
    reason: str
