"""The files that a benchmark writes: results as JSON, and a report as HTML."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench import results
from bench.options import INSTALL_REPORT, report_is_possible
from bench.results import Result, Run


def add_outputs(parser: argparse._ActionsContainer) -> None:
    """--json and --report, which `write_outputs` obeys."""
    parser.add_argument("--json", type=Path, help="write the results and their conditions")
    parser.add_argument("--report", type=report_file, help="write a report with plots, as one self-contained HTML file")


def report_file(text: str) -> Path:
    """Refuses before the measurement what would fail after it."""
    if not report_is_possible():
        raise argparse.ArgumentTypeError(INSTALL_REPORT)
    return Path(text)


def write_outputs(
    args: argparse.Namespace, found: Sequence[Run | Result], *, reported: Sequence[Run | Result] | None = None
) -> None:
    """`reported` is shown in the report instead of `found`."""
    if args.json:
        args.json.write_bytes(results.dumps(found))
    if args.report:
        from bench import report  # matplotlib is optional

        args.report.write_text(report.render(found if reported is None else reported), "utf-8")
