"""What a bench has measured, as a file: a load's every request, or tables and plots; and under which conditions."""

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


@dataclass(frozen=True, slots=True)
class Run:
    """One load on one server, or on a simulated one."""

    label: str
    outcomes: tuple[Outcome, ...]
    duration_s: float
    """How long requests came."""
    warm_up_s: float = 0.0
    threshold_s: float = THRESHOLD_S
    conditions: dict[str, str] = field(default_factory=dict)
    """What it was measured with, by name, in the order in which it is shown."""

    @property
    def counted(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.intended_s >= self.warm_up_s)

    def summary(self) -> Summary:
        return summarise(
            self.outcomes, duration_s=self.duration_s, warm_up_s=self.warm_up_s, threshold_s=self.threshold_s
        )


@dataclass(frozen=True, slots=True)
class RunFile:
    """What is written: the run, and its summary for whoever reads the file without us."""

    run: Run
    summary: Summary


# -- What is no load run -----------------------------------------------------------------------------------------------

Cell: TypeAlias = str | int | float | None
"""None, and what is not a number, is shown as "-"."""


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[str, ...]
    """The first names the row.  Units stand here: "CPU, µs a message"."""
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"{self.title}: a row is not as long as the {len(self.columns)} columns")


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: tuple[tuple[float, float], ...]
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over an axis; `x` and `y` are the axes' words, units in them."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    note: str = ""
    logarithmic: bool = False
    """Of the x axis."""
    names: tuple[str, ...] = ()
    """What stands at x = 0, 1, 2, and so on, in the place of numbers."""


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    value: float
    low: float | None = None
    """With `high`: the range over rounds, drawn as a whisker."""
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Bars:
    """Figures to be compared at a glance, all of one unit."""

    title: str
    unit: str
    bars: tuple[Bar, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What a bench other than a load run has found."""

    bench: str
    """Its module: "bench.server_overhead"."""
    title: str
    """The question, in words: "How many streams does one core carry?"."""
    conditions: dict[str, str]
    """`conditions()`, and the configuration by name, in the order in which they are shown."""
    headline: str = ""
    """The answer, in a sentence."""
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    bars: tuple[Bars, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader must know to judge the figures."""


# -- As a file ---------------------------------------------------------------------------------------------------------


class _Kind(msgspec.Struct):
    """What tells one kind of file from the other."""

    bench: str | None = None


def dumps(result: Run | Result) -> bytes:
    """As JSON."""
    written = RunFile(result, result.summary()) if isinstance(result, Run) else result
    return msgspec.json.format(msgspec.json.encode(written), indent=1) + b"\n"


def dumps_all(found: Sequence[Run | Result]) -> bytes:
    """Several in one file, for `loads_any`."""
    return b"[" + b",".join(map(dumps, found)) + b"]\n"


def loads(data: bytes | msgspec.Raw) -> Run:
    """A load run from JSON.  Raises ValueError where it is none."""
    return msgspec.json.decode(data, type=RunFile).run


def loads_any(data: bytes) -> tuple[Run | Result, ...]:
    """Whatever a bench has written, be it one thing or a list.  Raises ValueError where it is neither."""
    is_list = data.lstrip().startswith(b"[")
    return tuple(map(_loaded, msgspec.json.decode(data, type=list[msgspec.Raw]) if is_list else [data]))


def _loaded(data: bytes | msgspec.Raw) -> Run | Result:
    if msgspec.json.decode(data, type=_Kind).bench is None:
        return loads(data)
    return msgspec.json.decode(data, type=Result)


# -- Conditions --------------------------------------------------------------------------------------------------------


def conditions(program: str, arguments: Sequence[str] | None = None) -> dict[str, str]:
    """Command, commit, hardware and date.  `arguments` are those of this process unless given."""
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
