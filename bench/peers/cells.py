"""The contest's raw results as a file, so that several short runs can make one comparison."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from bench.peers.contest import Cell, Plan

_SAME = ("sentences", "limit_s", "threads", "cores", "seed")
"""What two runs must have in common to be put together."""


@dataclass(frozen=True, slots=True)
class Kept:
    plan: Plan
    """Of the last run."""
    cells: tuple[Cell, ...] = ()
    commands: tuple[str, ...] = ()
    absent: dict[str, str] = field(default_factory=dict)
    """Why a server was not measured, by its name."""


def load(path: Path) -> Kept:
    """Raises OSError, or ValueError where it is no such file."""
    return msgspec.json.decode(path.read_bytes(), type=Kept)


def dumps(kept: Kept) -> bytes:
    return msgspec.json.encode(kept) + b"\n"


def after(plan: Plan, kept: Kept) -> Plan:
    """The rounds that come after those that are kept.  Raises ValueError where the two cannot be put together."""
    for name in _SAME:
        if (before := getattr(kept.plan, name)) != (now := getattr(plan, name)):
            raise ValueError(f"the earlier rounds had {name} {before}, and these would have {now}")
    played = [cell.round + 1 for cell in kept.cells if cell.scenario in plan.scenarios]
    return replace(plan, first_round=max(played, default=0))
