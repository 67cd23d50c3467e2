"""What we claim, again, in one command: runs the benches one after the other, and draws one page of what they found.

    python -m bench.all
    python -m bench.all --smoke --only hot_path simulate

Small settings, for two cores and a quarter of an hour; the numbers of bench/RESULTS.md come from larger ones, which
each bench has of its own.  Each writes its JSON into the folder, and all of them make report.html there.  A bench that
fails is told, and fails the whole; what the others have found is drawn all the same.  `--smoke` is for whether all of
them still work: the test model `tone`, seconds, and no figure that means anything.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import report


@dataclass(frozen=True, slots=True)
class Job:
    """A bench, and how it is called."""

    name: str
    """bench.NAME is its module."""
    quick: tuple[str, ...] = ()
    smoke: tuple[str, ...] = ("--smoke",)
    limit_s: float = 300.0
    """It is stopped after that, and has failed."""


SHORT = ("--duration", "4", "--warm-up", "0")

JOBS = (
    Job("hot_path", smoke=()),
    Job(
        "simulate",
        quick=("--mode", "listeners", "-c", "64", "128", "256", "--duration", "30", "--warm-up", "8"),
        smoke=("--profile", "h200_stateful", "-c", "4", *SHORT),
    ),
    Job(
        "compare_policies",
        quick=("--duration", "40", "--drain", "20", "--warm-up", "10"),
        smoke=("--profile", "h200_stateful", "--rate", "2", "--drain", "6", *SHORT),
    ),
    Job("barge_in", quick=("--cancels", "2000"), smoke=("--cancels", "20", "--profile", "free")),
    Job("server_overhead", quick=("--rounds", "1", "--trials", "4")),
    Job("stacked", quick=("--model", "tone", "--rounds", "1")),
    Job("kokoro_profile", quick=("--rounds", "1")),
    # The embedded voice, against a server that has no pipeline; what must be installed first is left out.
    Job("peers", quick=("--peers", "ours", "whole-sentence", "--listeners", "1", "2", "--rounds", "1")),
)


def run(job: Job, folder: Path, *, smoke: bool) -> str:
    """What became of it, in words; empty where all is well."""
    file = folder / f"{job.name}.json"
    file.unlink(missing_ok=True)
    options = job.smoke if smoke else job.quick
    command = [sys.executable, "-m", f"bench.{job.name}", *options, "--json", str(file)]
    print(f"\n== {' '.join(['python', *command[1:]])}", flush=True)
    began_s = time.monotonic()
    try:
        status = subprocess.run(command, timeout=job.limit_s, check=False).returncode
    except subprocess.TimeoutExpired:
        return f"not done within {job.limit_s:g} s"
    print(f"({time.monotonic() - began_s:.0f} s)", flush=True)
    if not file.exists():
        return f"wrote nothing (exit status {status})"
    return f"exit status {status}" if status else ""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.all", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="a folder (default: %(default)s)")
    parser.add_argument("--smoke", action="store_true", help="seconds: only whether they work")
    parser.add_argument("--only", nargs="+", choices=[job.name for job in JOBS], help="these (default: all)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    args.output.mkdir(parents=True, exist_ok=True)
    jobs = [job for job in JOBS if args.only is None or job.name in args.only]
    outcomes = {job.name: run(job, args.output, smoke=args.smoke) for job in jobs}
    files = [file for job in jobs if (file := args.output / f"{job.name}.json").exists()]
    page = args.output / "report.html"
    if files:
        status = report.main([*map(str, files), "--output", str(page)])
        print(f"\n{page}" if status == 0 else "\nthere is no page")
    else:
        status = 1
    for name, trouble in outcomes.items():
        print(f"{name:<18} {trouble or 'ok'}")
    return 1 if status or any(outcomes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
