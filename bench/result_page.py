"""A bench's tables, bars and plots, as a part of a page and as text for a terminal."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from bench import plot
from bench.page import facts, figure
from bench.plot import Series
from bench.results import Bars, Cell, Plot, Result, Table

MAX_DOTS = 40
"""Of a line whose points are shown."""


def shown(cell: Cell) -> str:
    """A figure with as many digits as anybody reads."""
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return "-"
    if not isinstance(cell, float):
        return str(cell)
    if cell.is_integer():
        return f"{cell:.0f}"
    size = abs(cell)
    return (
        f"{cell:.0f}" if size >= 100 else f"{cell:.1f}" if size >= 10 else f"{cell:.2f}" if size >= 1 else f"{cell:.3g}"
    )


# -- As HTML -----------------------------------------------------------------------------------------------------------


def body(result: Result, conditions: Mapping[str, str]) -> str:
    """All but its title and headline.  `conditions` are those that the page has not told already."""
    drawings = [*map(_bars, result.bars), *map(_plot, result.plots)]
    notes = "".join(f"<li>{escape(note)}</li>" for note in result.notes)
    return "\n".join(
        [
            *map(_table, result.tables),
            f'<div class="plots">{"".join(drawings)}</div>' if drawings else "",
            f'<section class="card wide"><h2>To judge it by</h2><ul>{notes}</ul></section>' if notes else "",
            f'<section class="card wide"><h2>How it was measured</h2>{facts(conditions)}</section>'
            if conditions
            else "",
        ]
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(shown(cell))}</td>' for cell in row)}</tr>" for row in table.rows)
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return (
        f'<section class="card wide"><h2>{escape(table.title)}</h2>{note}'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></section>"
    )


def _bars(bars: Bars) -> str:
    rows = [(bar.name, bar.value, bar.low, bar.high, shown(bar.value)) for bar in bars.bars]
    words = f"{bars.unit}. {bars.note}".strip()
    return figure(bars.title, words, plot.bars(bars.title, rows))


def _plot(drawn: Plot) -> str:
    series = [Series(line.name, line.points, number, line.dashed) for number, line in enumerate(drawn.lines)]
    points = [point for one in series for point in one.points]
    values_x = [x for x, _y in points]
    if drawn.names:
        axis_x = plot.named_axis(drawn.x, drawn.names)
    elif drawn.logarithmic:
        least = min((value for value in values_x if value > 0), default=1.0)
        axis_x = plot.log_axis(drawn.x, values_x, low=least, high=10 * least)
    else:
        axis_x = plot.line_axis(drawn.x, values_x, low=0.0)
    axis_y = plot.line_axis("", [y for _x, y in points], low=0.0)
    dots = all(len(one.points) <= MAX_DOTS for one in series)
    words = f"{drawn.y}. {drawn.note}".strip()
    keys = plot.legend(series) if len(series) > 1 else ""
    return figure(drawn.title, words, plot.chart(drawn.title, axis_x, axis_y, series, dots=dots), keys)


# -- As text -----------------------------------------------------------------------------------------------------------


def as_text(result: Result) -> str:
    """What a terminal shows: the tables, and the notes below."""
    parts = [result.title, result.headline, *(f"\n{table.title}\n{_columns(table)}" for table in result.tables)]
    notes = "\n".join(f"- {note}" for note in result.notes)
    return "\n".join([*(part for part in parts if part), *([f"\n{notes}"] if notes else [])])


def _columns(table: Table) -> str:
    lines: list[Sequence[str]] = [table.columns, *(tuple(map(shown, row)) for row in table.rows)]
    widths = [max(len(line[number]) for line in lines) for number in range(len(table.columns))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
