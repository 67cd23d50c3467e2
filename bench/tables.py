"""Text tables: values with the digits that matter, columns aligned for a terminal."""

import math
import statistics
from collections.abc import Sequence

from bench.results import Result, Run, Table, Value
from bench.summary import COLUMNS


def format_value(value: Value) -> str:
    """Three significant digits, and all digits before the decimal point."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if not isinstance(value, float):
        return str(value)
    if value.is_integer():
        return f"{value:.0f}"
    size = abs(value)
    return f"{value:.{0 if size >= 100 else 1 if size >= 10 else 2}f}" if size >= 1 else f"{value:.3g}"


def format_spread(values: Sequence[float], digits: int = 1) -> str:
    """The median, and the range where there are several values; "-" without any."""
    if not values:
        return "-"
    low, median, high = (f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return median if len(values) == 1 else f"{median} ({low} to {high})"


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Columns of equal width: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        " | ".join(
            [line[0].ljust(widths[0]), *(value.rjust(width) for value, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    )


def as_text(result: Result) -> str:
    """Title, headline, tables and notes for a terminal."""
    notes = "\n".join(f"- {note}" for note in result.notes)
    parts = [f"{result.title}\n{result.headline}".strip(), *map(table_text, result.tables), notes]
    return "\n\n".join(filter(None, parts))


def table_text(table: Table) -> str:
    title = f"{table.title} ({table.note.rstrip('.')})" if table.note else table.title
    return f"{title}\n{aligned([table.columns, *([format_value(value) for value in row] for row in table.rows)])}"


def run_rows(runs: Sequence[Run]) -> list[list[str]]:
    """The label and the figures of each run."""
    summaries = [(run.label, run.summary()) for run in runs]
    return [[label, *(value(summary) for _heading, value in COLUMNS)] for label, summary in summaries]


def run_text(runs: Sequence[Run]) -> str:
    """The figures of each run for a terminal."""
    return aligned([["", *(heading for heading, _value in COLUMNS)], *run_rows(runs)])
