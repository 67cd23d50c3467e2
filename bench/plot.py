"""Line charts as SVG text: just what a load test's report needs, so that it needs no plotting package."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

Point = tuple[float, float]

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 24, 14, 44

COLOURS = ("#1f6feb", "#d9480f", "#2b8a3e", "#862e9c", "#0b7285", "#5f3dc4")
INK, FAINT, GRID, ALARM = "#1b1f24", "#6a737d", "#e6e8eb", "#c92a2a"


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
    floor: float | None = None,
) -> str:
    """An SVG element.  `marks` are vertical lines with a word, `bands` are alarming stretches of x.

    `steps` holds each value until the next; below `floor`, the ground is tinted.
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
        parts.append(f'<polyline points="{path}" fill="none" stroke="{_colour(one)}" stroke-width="2"{dash}/>')
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x.label))
    parts.append("</svg>")
    return "".join(parts)


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
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" stroke="{colour}"{dashes}/>'
    )


def _box(x: float, y: float, width: float, height: float) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{ALARM}" opacity="0.1"/>'


def _text(x: float, y: float, words: str, anchor: str = "middle", colour: str = FAINT) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


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
