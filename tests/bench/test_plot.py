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
