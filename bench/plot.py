"""Line charts as SVG text: just what a load test's report needs, so that it needs no plotting package."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

Point = tuple[float, float]

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 24, 14, 44

# Of the page, which has one of each for the light and for the dark.
COLOURS = tuple(f"var(--series-{number})" for number in range(6))
INK, FAINT, GRID, ALARM = "var(--ink)", "var(--faint)", "var(--grid)", "var(--alarm)"


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    points: Sequence[Point]
    colour: int = 0
    """Index into `COLOURS`."""
    dashed: bool = False


def plainly(value: float) -> str:
    return f"{value:g}"


@dataclass(frozen=True, slots=True)
class Axis:
    """`low` and `high` are the ends; a logarithmic axis shows everything below `low` at `low`."""

    label: str
    low: float
    high: float
    logarithmic: bool = False
    text: Callable[[float], str] = plainly
    at: Sequence[float] = ()
    """Where its ticks stand, in the place of round numbers."""

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.logarithmic and self.low <= 0):
            raise ValueError(f"an axis cannot go from {self.low} to {self.high}")

    def share(self, value: float) -> float:
        """Where a value lies: 0 at the low end, 1 at the high end."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        if self.at:
            return list(self.at)
        return _decades(self.low, self.high) if self.logarithmic else _steps(self.low, self.high)


def line_axis(
    label: str, values: Sequence[float], *, low: float | None = None, text: Callable[[float], str] = plainly
) -> Axis:
    """A linear axis around some values, ending at round numbers."""
    lowest, highest = min(values, default=0.0), max(values, default=1.0)
    if low is not None:
        lowest = min(low, lowest)
    step = _round_step((highest - lowest) or 1.0)
    high = max(math.ceil(highest / step - 1e-9), math.floor(lowest / step) + 1) * step
    return Axis(label, math.floor(lowest / step) * step, high, text=text)


def named_axis(label: str, names: Sequence[str]) -> Axis:
    """An axis of things that are no numbers: the first stands at 0, the next at 1, and so on."""
    return Axis(label, -0.5, len(names) - 0.5, text=lambda value: names[round(value)], at=range(len(names)))


def log_axis(label: str, values: Sequence[float], *, low: float, high: float) -> Axis:
    """A logarithmic axis from `low` or the decade of the least value, to `high` or the decade above the greatest."""
    highest = max(values, default=high)
    if values and min(values) > low:
        low = 10 ** math.floor(math.log10(min(values)))
    high = max(high, 10 * low, 10 ** math.ceil(math.log10(max(highest, low)) - 1e-9))
    return Axis(label, low, high, logarithmic=True)


def cdf(values: Sequence[float], points: int = 300) -> list[Point]:
    """(value, share of values at or below it), from the ground up: every value, or `points` of them where more."""
    ordered = sorted(values)
    count = len(ordered)
    ranks = range(count) if count <= points else [round(i * (count - 1) / (points - 1)) for i in range(points)]
    return [(ordered[0], 0.0), *((ordered[rank], (rank + 1) / count) for rank in ranks)] if ordered else []


def chart(
    title: str,
    x: Axis,
    y: Axis,
    series: Sequence[Series],
    *,
    marks: Sequence[tuple[float, str]] = (),
    bands: Sequence[tuple[float, float]] = (),
    steps: bool = False,
    dots: bool = False,
    floor: float | None = None,
) -> str:
    """An SVG element.  `marks` are vertical lines with a word, `bands` are alarming stretches of x.

    `steps` holds each value until the next; `dots` shows each point; below `floor`, the ground is tinted.
    """

    def at(point: Point) -> Point:
        return (
            LEFT + x.share(point[0]) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - y.share(point[1]) * (HEIGHT - TOP - BOTTOM),
        )

    bottom_px = HEIGHT - BOTTOM
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">']
    if floor is not None:
        floor_px = at((x.low, floor))[1]
        parts.append(_box(LEFT, floor_px, WIDTH - LEFT - RIGHT, bottom_px - floor_px))
    for start, end in bands:
        left_px, right_px = at((start, y.low))[0], at((end, y.low))[0]
        parts.append(_box(left_px, TOP, max(1.0, right_px - left_px), bottom_px - TOP))
    for tick in y.ticks():
        tick_px = at((x.low, tick))[1]
        parts.append(_line((LEFT, tick_px), (WIDTH - RIGHT, tick_px), GRID))
        parts.append(_text(LEFT - 8, tick_px + 4, y.text(tick), anchor="end"))
    for tick in x.ticks():
        tick_px = at((tick, y.low))[0]
        parts.append(_line((tick_px, bottom_px), (tick_px, bottom_px + 4), FAINT))
        parts.append(_text(tick_px, bottom_px + 17, x.text(tick)))
    parts.append(_line((LEFT, bottom_px), (WIDTH - RIGHT, bottom_px), FAINT))
    for value, word in marks:
        mark_px = at((value, y.low))[0]
        parts.append(_line((mark_px, TOP), (mark_px, bottom_px), ALARM, dash="3 3"))
        parts.append(_text(mark_px + 5, bottom_px - 7, word, anchor="start", colour=ALARM))
    for one in series:
        pixels = [at(point) for point in (_stepped(one.points) if steps else one.points)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in pixels)
        dash = ' stroke-dasharray="5 4"' if one.dashed else ""
        style = f"fill:none;stroke:{_colour(one)}"
        parts.append(f'<polyline points="{path}" style="{style}" stroke-width="2"{dash}/>')
        if dots:
            parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" style="fill:{_colour(one)}"/>' for px, py in pixels]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x.label))
    parts.append("</svg>")
    return "".join(parts)


BAR_HEIGHT, BAR_NAME, BAR_VALUE = 30, 150, 60
"""The height of a row, and what lies left and right of it."""


def bars(title: str, rows: Sequence[tuple[str, float, float | None, float | None, str]]) -> str:
    """An SVG element of (name, value, low, high, the value in words): lying bars from 0, each with its range."""
    reach = max((value for _name, *values, _words in rows for value in values if value is not None), default=0.0)
    width = WIDTH - BAR_NAME - BAR_VALUE

    def at(value: float) -> float:
        return BAR_NAME + (value / reach if reach > 0 else 0.0) * width

    parts = [f'<svg viewBox="0 0 {WIDTH} {len(rows) * BAR_HEIGHT}" role="img" aria-label="{escape(title)}">']
    for number, (name, value, low, high, words) in enumerate(rows):
        top_px, middle_px = number * BAR_HEIGHT, (number + 0.5) * BAR_HEIGHT
        colour = COLOURS[number % len(COLOURS)]
        parts.append(_text(BAR_NAME - 10, middle_px + 4, name, anchor="end", colour=INK))
        parts.append(
            f'<rect x="{BAR_NAME}" y="{top_px + 6}" width="{max(1.0, at(value) - BAR_NAME):.1f}"'
            f' height="{BAR_HEIGHT - 12}" rx="3" style="fill:{colour}" opacity="0.85"/>'
        )
        if low is not None and high is not None and high > low:
            parts.append(_line((at(low), middle_px), (at(high), middle_px), INK))
            parts += [_line((at(end), middle_px - 5), (at(end), middle_px + 5), INK) for end in (low, high)]
        parts.append(_text(at(max(value, high or value)) + 8, middle_px + 4, words, anchor="start", colour=INK))
    return "".join([*parts, "</svg>"])


def legend(series: Sequence[Series]) -> str:
    """Which line is which, as HTML."""
    keys = (
        f'<span class="key"><i style="border-top:2px {"dashed" if one.dashed else "solid"} {_colour(one)}"></i>'
        f"{escape(one.name)}</span>"
        for one in series
    )
    return f'<p class="legend">{"".join(keys)}</p>'


def _stepped(points: Sequence[Point]) -> list[Point]:
    corners = list(points[:1])
    for (_, before), (x, y) in pairwise(points):
        corners += [(x, before), (x, y)]
    return corners


def _colour(series: Series) -> str:
    return COLOURS[series.colour % len(COLOURS)]


def _line(start: Point, end: Point, colour: str, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
        f' style="stroke:{colour}"{dashes}/>'
    )


def _box(x: float, y: float, width: float, height: float) -> str:
    size = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {size} style="fill:{ALARM}" opacity="0.1"/>'


def _text(x: float, y: float, words: str, anchor: str = "middle", colour: str = FAINT) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="fill:{colour}">{escape(words)}</text>'


def _round_step(extent: float) -> float:
    """1, 2 or 5 times a power of ten, so that an extent has four to ten of it."""
    raw = extent / 5
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw - 1e-12)


def _steps(low: float, high: float) -> list[float]:
    step = _round_step(high - low)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _decades(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**power for power in range(first, last + 1) if low <= 10.0**power <= high * (1 + 1e-9)]
