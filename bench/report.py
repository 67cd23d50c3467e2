"""HTML reports of benchmark results: one self-contained file with tables and plots.

    python -m bench.report a.json b.json --output report.html

Reads the files that the benchmarks write with --json, and compares the load runs of one benchmark with each other.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from bench import results, run_plots
from bench.options import INSTALL_REPORT, make_parser, report_is_possible
from bench.results import Result, Run, Table, Value
from bench.summary import COLUMNS, ms, percent
from bench.tables import format_value, run_rows

TITLE = "Benchmark results"
RUNS_TITLE = "Playback continuity under load"


KeyFigure: TypeAlias = tuple[str, str, str]
"""A key figure, its label, and "good", "bad" or neither."""


def render(found: Sequence[Run | Result]) -> str:
    """The report as HTML.  Raises ValueError without results."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from bench import charts

    if not found:
        raise ValueError("there are no results to report")
    listed = list(_results(found))
    common = shared([result.conditions for result, _key_figures in listed]) if len(listed) > 1 else {}
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    )
    environment.filters |= {"value": format_value, "plot": charts.draw_plot, "bars": charts.draw_bars}
    return environment.get_template("report.html.jinja").render(
        title=TITLE if len(listed) > 1 else listed[0][0].title, sections=listed, common=common
    )


def shared(conditions: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The entries that are the same in all."""
    first, *others = conditions
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


# -- Load runs ---------------------------------------------------------------------------------------------------------


def _results(found: Sequence[Run | Result]) -> Iterator[tuple[Result, Sequence[KeyFigure]]]:
    """Every result, and one for all runs of a benchmark, in the order of the files."""
    by_bench: dict[str, list[Run]] = {}
    for each in found:
        if isinstance(each, Run):
            by_bench.setdefault(_bench_of(each), []).append(each)
    for each in found:
        if isinstance(each, Result):
            yield each, ()
        elif runs := by_bench.pop(_bench_of(each), None):
            bench = _bench_of(each)
            title = RUNS_TITLE if not bench or len(found) == len(runs) else f"{RUNS_TITLE} ({bench})"
            yield _result_of_runs(bench, title, runs), _key_figures(runs[0]) if len(runs) == 1 else ()


def _bench_of(run: Run) -> str:
    """The module in the command of the run; empty without a command."""
    _python, _m, module, *_arguments = [*run.conditions.get("command", "").split(), "", "", ""]
    return module


def _result_of_runs(bench: str, title: str, runs: Sequence[Run]) -> Result:
    conditions = [run.conditions | _agreement(run) for run in runs]
    common = shared(conditions)
    different = list(dict.fromkeys(name for each in conditions for name in each if name not in common))
    tables = [Table("Runs", ("run", *(heading for heading, _value in COLUMNS)), tuple(map(tuple, run_rows(runs))))]
    if different:
        rows: list[tuple[Value, ...]] = [
            (run.label, *(each.get(name) for name in different)) for run, each in zip(runs, conditions, strict=True)
        ]
        tables.append(Table("Conditions of each run", ("run", *different), tuple(rows)))
    first = runs[0].summary()
    headline = f"{runs[0].label}: {first.requests} requests, {first.audio_s_per_s:.1f} seconds of audio per second"
    return Result(
        bench,
        title,
        common,
        headline if len(runs) == 1 else f"{len(runs)} runs compared",
        tuple(tables),
        run_plots.plots(runs),
    )


def _agreement(run: Run) -> dict[str, str]:
    """How far the client's and the server's figures differ, where the server reported its own."""
    summary = run.summary()
    ttfp, underrun = summary.ttfp_difference_s, summary.underrun_difference_s
    if ttfp.p50 is None:
        return {}
    return {
        "client and server differ by": f"TTFP p50 {ms(ttfp.p50)} ms, p99 {ms(ttfp.p99)} ms;"
        f" underrun p50 {ms(underrun.p50)} ms, p99 {ms(underrun.p99)} ms"
    }


def _key_figures(run: Run) -> Sequence[KeyFigure]:
    summary = run.summary()
    p95_s = summary.underrun_s.p95
    within = p95_s is not None and p95_s <= run.threshold_s
    return (
        (f"{ms(p95_s)} ms", "underrun, 95th percentile", "good" if within else "bad"),
        (percent(summary.ok_share), f"of the streams without a gap above {ms(run.threshold_s)} ms", ""),
        (f"{ms(summary.ttfp_s.p50)} ms", "time to first packet, median", ""),
        (f"{ms(summary.ttfp_s.p95)} ms", "time to first packet, 95th percentile", ""),
        (str(summary.refused), f"refused, of {summary.requests}", ""),
        (str(summary.failed), "failed", "bad" if summary.failed else ""),
    )


# -- Command line ------------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser("bench.report", __doc__)
    parser.add_argument("files", nargs="+", type=Path, help="files that benchmarks have written with --json")
    parser.add_argument("--output", type=Path, default=Path("report.html"), help="the report")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    if not report_is_possible():
        print(f"Error: the report {INSTALL_REPORT}", file=sys.stderr)
        return 2
    try:
        found = [each for path in args.files for each in results.loads(path.read_bytes())]
        args.output.write_text(render(found), encoding="utf-8")
    except (OSError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
