"""Placement: which replica a new listener is served by."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from realtime_tts.engine.api import EngineStatus


@dataclass(frozen=True, slots=True)
class Candidate:
    name: str
    status: EngineStatus
    listeners: int
    """Those of this server."""
    draining: bool
    last_chosen: int
    """When it got its latest listener: a number that grows."""

    @property
    def load(self) -> float:
        """Of its capacity, the part that is used with one listener more.  A slower device states less capacity."""
        return 0.0 if self.status.capacity is None else (self.listeners + 1) / self.status.capacity


def choose(candidates: Sequence[Candidate], excluded: Collection[str] = ()) -> str | None:
    """The least loaded replica that is ready; then the one with the fewest listeners; then by turns."""
    usable = [each for each in candidates if each.status.ready and not each.draining and each.name not in excluded]
    if not usable:
        return None
    return min(usable, key=lambda each: (each.load, each.listeners, each.last_chosen)).name
