"""What should run next?  Pure functions from a snapshot of the engine to a batch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from realtime_tts.engine.chunking import Chunk


@dataclass(frozen=True, slots=True)
class Candidate:
    """A request that a stage could advance now."""

    request_id: str
    sequence: int
    """Order of submission: breaks ties, first come first served."""
    deadline_s: float
    """When its listener runs dry, unless this is done by then."""
    chunk: Chunk | None = None
    """The frames to decode (last stage only)."""


@dataclass(frozen=True, slots=True)
class StageView:
    name: str
    lane: str
    max_batch: int
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a policy may know, in pipeline order."""

    now_s: float
    stages: tuple[StageView, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    stage: str
    rows: tuple[Candidate, ...]


Policy: TypeAlias = Callable[[Snapshot, str], Batch | None]
"""(snapshot, idle lane) -> what to launch there, or None to leave it idle."""


def _urgency(candidate: Candidate) -> tuple[float, int]:
    return candidate.deadline_s, candidate.sequence


def playout_deadline_first(snapshot: Snapshot, lane: str) -> Batch | None:
    """Serves the listener who runs dry first, and fills the batch with those who are next.

    Where two stages share a lane, the one with the most urgent request goes first; on a tie the later stage, since
    its work becomes sound at once.
    """
    ready = [stage for stage in reversed(snapshot.stages) if stage.lane == lane and stage.candidates]
    if not ready:
        return None
    stage = min(ready, key=lambda stage: min(map(_urgency, stage.candidates)))
    rows = sorted(stage.candidates, key=_urgency)[: stage.max_batch]
    return Batch(stage.name, tuple(rows))
