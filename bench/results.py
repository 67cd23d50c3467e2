"""A load test's results as a file: every request's figures, and the conditions they were measured under."""

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

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


def dumps(run: Run) -> bytes:
    """A run as JSON."""
    return msgspec.json.format(msgspec.json.encode(RunFile(run, run.summary())), indent=1) + b"\n"


def loads(data: bytes) -> Run:
    """A run from JSON.  Raises ValueError where it is none."""
    return msgspec.json.decode(data, type=RunFile).run


def conditions(program: str, arguments: Sequence[str] | None = None) -> dict[str, str]:
    """Command, commit and hardware.  `arguments` are those of this process unless given."""
    return {
        "command": shlex.join(["python", "-m", program, *(sys.argv[1:] if arguments is None else arguments)]),
        "commit": commit(),
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
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
