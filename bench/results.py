"""Benchmark results: load runs, tables, plots and bar charts, with the conditions of the measurement, as JSON."""

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import msgspec

from bench.summary import THRESHOLD_S, Outcome, Summary, summarise

ROOT = Path(__file__).parent.parent
MAX_CUMULATIVE_POINTS = 300

Point: TypeAlias = tuple[float, float]
Value: TypeAlias = str | int | float | None
"""An entry of a table.  None, infinity and NaN are shown as "-"."""


@dataclass(frozen=True, slots=True)
class Run:
    """One load on one server, or on a simulated one."""

    label: str
    outcomes: tuple[Outcome, ...]
    duration_s: float
    """How long requests arrived."""
    warm_up_s: float = 0.0
    threshold_s: float = THRESHOLD_S
    conditions: dict[str, str] = field(default_factory=dict)
    """What it was measured with, by name, in display order."""

    @property
    def counted(self) -> tuple[Outcome, ...]:
        """The outcomes after the warm-up."""
        return tuple(outcome for outcome in self.outcomes if outcome.intended_s >= self.warm_up_s)

    def summary(self) -> Summary:
        return summarise(
            self.outcomes, duration_s=self.duration_s, warm_up_s=self.warm_up_s, threshold_s=self.threshold_s
        )


@dataclass(frozen=True, slots=True)
class RunFile:
    """The written form of a run; the summary is for readers other than this program."""

    run: Run
    summary: Summary


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[str, ...]
    """The first column names the row.  Units are part of the heading: "CPU, µs per message"."""
    rows: tuple[tuple[Value, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"{self.title}: every row must have {len(self.columns)} values")


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: tuple[Point, ...]
    dashed: bool = False
    colour: int | None = None
    """Index into the palette; by default the position in the plot."""


@dataclass(frozen=True, slots=True)
class Plot:
    title: str
    x: str
    """Axis label, with the unit; so is `y`."""
    y: str
    lines: tuple[Line, ...]
    note: str = ""
    logarithmic: bool = False
    """The x axis."""
    milliseconds: bool = False
    """The x axis is in milliseconds; its ticks show ms or s."""
    percent: bool = False
    """The y axis is a share from 0 to 1, shown in percent."""
    steps: bool = False
    """Each value is constant until the next point; the last one extends to the right edge."""
    markers: bool = False
    names: tuple[str, ...] = ()
    """Labels at x = 0, 1, 2, ... in place of numbers."""
    marks: tuple[tuple[float, str], ...] = ()
    """Vertical lines with a label."""
    bands: tuple[tuple[float, float], ...] = ()
    """Highlighted ranges of x."""


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    value: float
    low: float | None = None
    """With `high`: the range over rounds, drawn as an error bar."""
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar chart of values of one unit."""

    title: str
    unit: str
    bars: tuple[Bar, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a benchmark that is not a load run."""

    bench: str
    """Its module: "bench.server_overhead"."""
    title: str
    conditions: dict[str, str]
    """`conditions()` and the configuration by name, in display order."""
    headline: str = ""
    """The main finding in one sentence."""
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    bars: tuple[Bars, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader must know to judge the figures."""


def cumulative(values: Sequence[float]) -> tuple[Point, ...]:
    """(value, share of values at or below it): every value, or `MAX_CUMULATIVE_POINTS` of them."""
    ordered = sorted(values)
    if not ordered:
        return ()
    last = len(ordered) - 1
    count = min(len(ordered), MAX_CUMULATIVE_POINTS)
    ranks = [round(number * last / max(1, count - 1)) for number in range(count)]
    return ((ordered[0], 0.0), *((ordered[rank], (rank + 1) / len(ordered)) for rank in ranks))


# -- JSON --------------------------------------------------------------------------------------------------------------


class _Kind(msgspec.Struct):
    """The field that distinguishes a `Result` from a `RunFile`."""

    bench: str | None = None


def dumps(found: Sequence[Run | Result]) -> bytes:
    """A JSON list."""
    written = [RunFile(each, each.summary()) if isinstance(each, Run) else each for each in found]
    return msgspec.json.format(msgspec.json.encode(written), indent=1) + b"\n"


def loads(data: bytes) -> tuple[Run | Result, ...]:
    """Raises ValueError where the data is not a list of results."""
    return tuple(map(_load, msgspec.json.decode(data, type=list[msgspec.Raw])))


def _load(data: msgspec.Raw) -> Run | Result:
    if msgspec.json.decode(data, type=_Kind).bench is None:
        return msgspec.json.decode(data, type=RunFile).run
    return msgspec.json.decode(data, type=Result)


# -- Conditions --------------------------------------------------------------------------------------------------------


def conditions(program: str, arguments: Sequence[str] | None = None) -> dict[str, str]:
    """Command, commit, hardware and date.  `arguments` default to those of this process."""
    return {
        "command": shlex.join(["python", "-m", program, *(sys.argv[1:] if arguments is None else arguments)]),
        "commit": commit(),
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "measured": datetime.now(UTC).isoformat(" ", "minutes"),
    }


def commit() -> str:
    """The commit of the working tree, marked where files differ from it."""
    described = subprocess.run(
        ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=, with changes"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "unknown"


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
