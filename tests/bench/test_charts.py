"""Charts are well-formed SVG that shows every label, in the colours of the page."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from bench import charts
from bench.results import Bar, Bars, Line, Plot

LINES = (Line("a < b", ((0, -1), (1, 5), (100, 2))), Line("none", ()), Line("dashed", ((1, 1),), dashed=True))
PAGE = Path(charts.__file__).with_name("report.html.jinja").read_text("utf-8")


def test_every_kind_of_plot_is_drawn_with_its_labels() -> None:
    for plot in (
        Plot("t", "x & y", "z", LINES, marks=((2.0, "<2>"),), bands=((3.0, 4.0),), markers=True),
        Plot("t", "x & y", "z", LINES, logarithmic=True, milliseconds=True, percent=True, steps=True),
        Plot("t", "x & y", "z", LINES, names=("first", "second")),
        Plot("t", "x & y", "z", ()),
        Plot("t", "x & y", "z", (Line("", ()),), logarithmic=True, percent=True, steps=True),
    ):
        svg = charts.draw_plot(plot)
        text = "".join(ET.fromstring(svg).itertext())
        expected = ["x & y", "z", *(line.name for line in plot.lines), *plot.names, *(name for _x, name in plot.marks)]
        assert all(label in text for label in expected), text
        assert not re.search(r"#[0-9a-f]{6}", svg), "a colour that does not depend on the theme"


def test_ticks_show_their_unit() -> None:
    svg = charts.draw_plot(
        Plot("t", "x", "y", (Line("", ((5.0, 0.1), (3000.0, 1.0))),), logarithmic=True, milliseconds=True, percent=True)
    )
    for tick in ("1 ms", "100 ms", "1 s", "10 s", "100%"):
        assert f">{tick}<" in svg


def test_bars_show_their_names_and_values() -> None:
    svg = charts.draw_bars(Bars("t", "µs", (Bar("a < b", 2.0, 1.0, 4.0), Bar("zero", 0.0))))
    text = "".join(ET.fromstring(svg).itertext())
    assert all(label in text for label in ("a < b", "zero", "µs", "2"))
    ET.fromstring(charts.draw_bars(Bars("t", "µs", ())))


def test_the_page_defines_every_colour_for_both_themes() -> None:
    themes = re.findall(r":root \{([^}]*)\}", PAGE)
    assert len(themes) == 2
    for name in {*charts.THEME.values(), *re.findall(r"var\(--([a-z0-9-]+)\)", PAGE)}:
        assert all(f"--{name}: " in theme for theme in themes), name


def test_the_same_plot_gives_the_same_file() -> None:
    plot = Plot("t", "x", "y", LINES)
    assert charts.draw_plot(plot) == charts.draw_plot(plot)
