"""Charts as SVG: axes that end at round numbers, and lines that stay within them."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import plot
from bench.plot import Axis, Series

FINITE = st.integers(-(10**9), 10**9).map(lambda thousandths: thousandths / 1000)


@given(st.lists(FINITE))
def test_a_distribution_rises_from_0_to_1(values: list[float]) -> None:
    points = plot.cdf(values, points=50)
    assert len(points) <= 51
    assert points == sorted(points)
    if values:
        assert points[0] == (min(values), 0.0)
        assert points[-1] == (max(values), 1.0)


@given(st.lists(FINITE))
def test_an_axis_holds_all_values(values: list[float]) -> None:
    axis = plot.line_axis("", values, low=0.0)
    assert all(axis.low <= value <= axis.high + 1e-9 * (axis.high - axis.low) for value in values)
    assert 2 <= len(axis.ticks()) <= 12


@given(st.lists(st.floats(1e-3, 1e6)))
def test_a_logarithmic_axis_holds_all_values_and_has_whole_decades(values: list[float]) -> None:
    axis = plot.log_axis("", values, low=1, high=10)
    assert all(value <= axis.high * (1 + 1e-9) for value in values)
    assert len(axis.ticks()) >= 2


def test_an_axis_cannot_be_empty() -> None:
    for low, high, logarithmic in ((1, 1, False), (0, 10, True)):
        with pytest.raises(ValueError, match="axis"):
            Axis("", low, high, logarithmic)


def test_an_axis_of_names_has_each_at_its_number_and_none_at_an_edge() -> None:
    axis = plot.named_axis("layer", ["a", "b", "c"])
    assert [(value, axis.text(value)) for value in axis.ticks()] == [(0, "a"), (1, "b"), (2, "c")]
    assert all(0 < axis.share(value) < 1 for value in axis.ticks())


def test_a_chart_is_well_formed_and_stays_within_its_frame() -> None:
    series = [Series("a < b", [(0, -1), (1, 5), (100, 2)]), Series("none", [])]
    drawing = plot.chart(
        "a < b", Axis("x & y", 0, 10), Axis("", 0, 4), series, marks=[(2, "<2>")], bands=[(3, 4)], floor=1
    )
    ET.fromstring(drawing)
    for line in re.findall(r'polyline points="([^"]*)"', drawing):
        for pair in line.split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= plot.WIDTH
            assert 0 <= y <= plot.HEIGHT


def test_a_legend_names_every_line_safely() -> None:
    assert "a &lt; b" in plot.legend([Series("a < b", []), Series("c", [], dashed=True)])


def test_bars_are_as_long_as_their_values_and_show_their_range() -> None:
    rows = [("a < b", 2.0, 1.0, 4.0, "2.00"), ("nothing", 0.0, None, None, "0")]
    drawing = plot.bars("a < b", rows)
    ET.fromstring(drawing)
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([0-9.]+)"', drawing)]
    assert widths == [(plot.WIDTH - plot.BAR_NAME - plot.BAR_VALUE) / 2, 1.0]
    assert drawing.count("<line") == 3
    assert "a &lt; b" in drawing
    ET.fromstring(plot.bars("none", []))


def test_dots_show_each_point() -> None:
    series = [Series("a", [(0, 1), (1, 2)])]
    axes = Axis("", 0, 1), Axis("", 0, 4)
    assert plot.chart("a", *axes, series, dots=True).count("<circle") == 2
    assert plot.chart("a", *axes, series).count("<circle") == 0
