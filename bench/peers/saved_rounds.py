"""Measurements of the comparison in a file, so that several short runs add up to one comparison."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from bench.peers.comparison import ComparisonPlan, Measurement


@dataclass(frozen=True, slots=True)
class SavedRounds:
    plan: ComparisonPlan
    """Of the last run."""
    measurements: tuple[Measurement, ...] = ()
    commands: tuple[str, ...] = ()
    absent: dict[str, str] = field(default_factory=dict)
    """The reason by the name of each server that was not measured."""


def load(path: Path) -> SavedRounds:
    """Raises OSError, or ValueError if the file is invalid."""
    return msgspec.json.decode(path.read_bytes(), type=SavedRounds)


def dumps(saved: SavedRounds) -> bytes:
    return msgspec.json.encode(saved) + b"\n"


def continued(plan: ComparisonPlan, saved: SavedRounds) -> ComparisonPlan:
    """`plan` with the rounds after the saved ones.  Raises ValueError if the two plans are not comparable."""
    before, now = plan_settings(saved.plan), plan_settings(plan)
    if before != now:
        raise ValueError(f"the saved rounds were measured with {before}, but this run uses {now}")
    saved_rounds = [one.round + 1 for one in saved.measurements if one.scenario in plan.scenarios]
    return replace(plan, first_round=max(saved_rounds, default=0))


def plan_settings(plan: ComparisonPlan) -> str:
    """The settings that two comparable runs share."""
    cores = ",".join(map(str, plan.cores))
    return (
        f"{plan.sentences} sentences, limit {plan.limit_s:g} s, {plan.threads} threads, cores {cores}, seed {plan.seed}"
    )
