"""All benchmarks in one command: runs them one after the other, and writes one report of their results.

    python -m bench.all
    python -m bench.all --smoke --only hot_path simulate

The settings are small: two cores need a quarter of an hour.  The figures in bench/RESULTS.md come from larger settings
of the individual benchmarks.  Each benchmark writes its JSON into the output folder, and report.html there shows all
of them.  If one fails, the others still run and are in the report; the exit status is then 1.  With `--smoke` the
benchmarks only check that they work: the test model `tone`, a few seconds, and no meaningful figures.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import report
from bench.options import INSTALL_REPORT, make_parser, report_is_possible


@dataclass(frozen=True, slots=True)
class Benchmark:
    name: str
    """bench.NAME is its module."""
    quick: tuple[str, ...] = ()
    smoke: tuple[str, ...] = ("--smoke",)
    timeout_s: float = 300.0


SHORT = ("--duration", "4", "--warm-up", "0")

BENCHMARKS = (
    Benchmark("hot_path", smoke=()),
    Benchmark(
        "simulate",
        quick=("--mode", "listeners", "-c", "64", "128", "256", "--duration", "30", "--warm-up", "8"),
        smoke=("--profile", "h200_stateful", "-c", "4", *SHORT),
    ),
    Benchmark(
        "compare_policies",
        quick=("--duration", "40", "--drain", "20", "--warm-up", "10"),
        smoke=("--profile", "h200_stateful", "--rate", "2", "--drain", "6", *SHORT),
    ),
    Benchmark("barge_in", quick=("--cancels", "2000"), smoke=("--cancels", "20", "--profile", "free")),
    Benchmark("soak", quick=("--minutes", "2", "--clients", "10"), smoke=("--minutes", "0.05", "--clients", "3")),
    Benchmark("server_overhead", quick=("--rounds", "1", "--trials", "4")),
    Benchmark("ablation", quick=("--model", "tone", "--rounds", "1")),
    Benchmark("kokoro_profile", quick=("--rounds", "1")),
    # The embedded voice against a server without a pipeline: servers that need an installation are left out.
    Benchmark("peers", quick=("--peers", "ours", "whole-sentence", "--listeners", "1", "2", "--rounds", "1")),
)


def run(benchmark: Benchmark, folder: Path, *, smoke: bool) -> str:
    """The problem in words; empty after success."""
    file = folder / f"{benchmark.name}.json"
    file.unlink(missing_ok=True)
    options = benchmark.smoke if smoke else benchmark.quick
    command = [sys.executable, "-m", f"bench.{benchmark.name}", *options, "--json", str(file)]
    print(f"\n== {' '.join(['python', *command[1:]])}", flush=True)
    start_s = time.monotonic()
    try:
        status = subprocess.run(command, timeout=benchmark.timeout_s, check=False).returncode
    except subprocess.TimeoutExpired:
        return f"stopped after {benchmark.timeout_s:g} s"
    print(f"({time.monotonic() - start_s:.0f} s)", flush=True)
    if not file.exists():
        return f"no results (exit status {status})"
    return f"exit status {status}" if status else ""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser("bench.all", __doc__)
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="folder")
    parser.add_argument("--smoke", action="store_true", help="only check that the benchmarks work")
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser.add_argument("--only", nargs="+", choices=names, help="run only these  [default: all]")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    args.output.mkdir(parents=True, exist_ok=True)
    chosen = [benchmark for benchmark in BENCHMARKS if args.only is None or benchmark.name in args.only]
    problems = {benchmark.name: run(benchmark, args.output, smoke=args.smoke) for benchmark in chosen}
    print(f"\n{write_report(args.output, list(problems))}")
    for name, problem in problems.items():
        print(f"{name:<18} {problem or 'ok'}")
    return 1 if any(problems.values()) else 0


def write_report(folder: Path, names: Sequence[str]) -> str:
    """The report's path, or why there is none."""
    files = [str(file) for name in names if (file := folder / f"{name}.json").exists()]
    if not files:
        return "no report: there are no results"
    if not report_is_possible():
        return f"no report: it {INSTALL_REPORT}"
    path = folder / "report.html"
    return str(path) if report.main([*files, "--output", str(path)]) == 0 else "no report"


if __name__ == "__main__":
    sys.exit(main())
