"""Command-line options that the benchmarks share, and the files that they write."""

import argparse
import importlib.util
from collections.abc import Sequence
from pathlib import Path

from bench import results
from bench.results import Result, Run

REPORT_PACKAGES = ("matplotlib", "jinja2")
INSTALL_REPORT = "needs matplotlib and jinja2: pip install 'realtime-tts[bench]'"


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of the description, and adds the default of an option to its help."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.default is not None and action.default is not False
        return super()._get_help_string(action) if has_default else action.help


def make_parser(module: str, description: str | None, *, epilog: str | None = None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        epilog=epilog,
        formatter_class=HelpFormatter,
    )


def add_outputs(parser: argparse._ActionsContainer) -> None:
    """--json and --report, which `write_outputs` obeys."""
    parser.add_argument("--json", type=Path, help="write the results and their conditions")
    parser.add_argument("--report", type=report_file, help="write a report with plots, as one self-contained HTML file")


def report_is_possible() -> bool:
    return all(importlib.util.find_spec(name) for name in REPORT_PACKAGES)


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
        from bench import report

        args.report.write_text(report.render(found if reported is None else reported), "utf-8")


def positive(text: str) -> float:
    if not 0 < (value := float(text)) < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text}")
    return value


def positive_int(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be positive, got {text}")
    return number
