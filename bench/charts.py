"""Charts as SVG elements for an HTML page, drawn with matplotlib."""

import io
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from bench.results import Bars, Plot
from bench.tables import format_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, FAINT, GRID, ALARM = "#1b1f24", "#5f6873", "#e6e8eb", "#c92a2a"
SERIES = ("#1f6feb", "#d9480f", "#2b8a3e", "#862e9c", "#0b7285", "#5f3dc4")
# The page replaces these colours by its own, which depend on the light or dark theme.
THEME = {INK: "ink", FAINT: "faint", GRID: "grid", ALARM: "alarm"} | {
    colour: f"series-{number}" for number, colour in enumerate(SERIES)
}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text, so that the page's font applies
    "svg.hashsalt": "bench",  # the same figure gives the same file
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "grid.color": GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
}
WIDTH_IN, HEIGHT_IN, BAR_HEIGHT_IN = 6.0, 3.3, 0.32


def colour_of(number: int) -> str:
    return SERIES[number % len(SERIES)]


def draw_plot(plot: Plot) -> str:
    return _svg(lambda axes: _lines(axes, plot), HEIGHT_IN)


def draw_bars(bars: Bars) -> str:
    return _svg(lambda axes: _bars(axes, bars), 0.6 + BAR_HEIGHT_IN * len(bars.bars))


def _svg(draw: Callable[["Axes"], None], height_in: float) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
        draw(figure.subplots())
        file = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    svg = file.getvalue()
    for colour, name in THEME.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg[svg.index("<svg") :]


def _lines(axes: "Axes", plot: Plot) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, PercentFormatter

    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.grid(axis="y")
    xs = [x for line in plot.lines for x, _y in line.points]
    ys = [y for line in plot.lines for _x, y in line.points]
    if plot.logarithmic:
        axes.set_xscale("log")
        # Marks are inside, with room for their labels on the right.
        axes.set_xlim(*_decades([*xs, *(2 * value for value, _label in plot.marks)]))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _at: f"{value:g}"))
    elif plot.names:
        axes.set_xlim(-0.5, len(plot.names) - 0.5)
        axes.set_xticks(range(len(plot.names)), plot.names)
    else:
        axes.set_xlim(0.0, max(xs, default=0.0) * 1.02 or 1.0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=all(x == round(x) for x in xs)))
    if plot.milliseconds:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _at: f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:g} s"))
    if plot.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    if min(ys, default=0.0) < 0:
        axes.axhspan(min(ys) * 1.1, 0.0, color=ALARM, alpha=0.1, linewidth=0)
    for low, high in plot.bands:
        axes.axvspan(low, high, color=ALARM, alpha=0.1, linewidth=0)
    right = axes.get_xlim()[1]
    for number, line in enumerate(plot.lines):
        points = [*line.points, (right, line.points[-1][1])] if plot.steps and line.points else line.points
        axes.plot(
            [x for x, _y in points],
            [y for _x, y in points],
            label=line.name,
            color=colour_of(number if line.colour is None else line.colour),
            linestyle="--" if line.dashed else "-",
            drawstyle="steps-post" if plot.steps else "default",
            marker="o" if plot.markers else "",
        )
    bottom, top = min(ys, default=0.0), max(ys, default=0.0)
    axes.set_ylim(min(0.0, bottom * 1.1), top * 1.05 or 1.0)
    for value, label in plot.marks:
        axes.axvline(value, color=ALARM, linestyle=":", linewidth=1)
        axes.annotate(label, (value, 0.03), (4, 0), ("data", "axes fraction"), "offset points", color=ALARM)
    if len(plot.lines) > 1:
        figure = axes.get_figure()
        assert figure is not None
        columns = 1 if max(len(line.name) for line in plot.lines) > 40 else 2 if len(plot.lines) < 5 else 3
        figure.legend(loc="outside upper left", ncols=columns)


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """Powers of ten around the positive values."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def _bars(axes: "Axes", bars: Bars) -> None:
    values = [bar.value for bar in bars.bars]
    below = [0.0 if bar.low is None else bar.value - bar.low for bar in bars.bars]
    above = [0.0 if bar.high is None else bar.high - bar.value for bar in bars.bars]
    drawn = axes.barh(
        range(len(values)),
        values,
        height=0.65,
        xerr=[below, above] if any(below) or any(above) else None,
        capsize=3,
        color=[colour_of(number) for number in range(len(values))],
        error_kw={"ecolor": INK, "elinewidth": 1},
    )
    axes.bar_label(drawn, [format_value(value) for value in values], padding=6, color=INK)
    axes.set_yticks(range(len(values)), [bar.name for bar in bars.bars])
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.invert_yaxis()
    axes.set_xlim(0.0, max(map(sum, zip(values, above, strict=True)), default=0.0) * 1.15 or 1.0)
    axes.set_xlabel(bars.unit)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
