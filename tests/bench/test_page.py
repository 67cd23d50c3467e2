"""The look of a page: text stays text, and every colour that a drawing names is there, in the light and in the dark."""

import re

from bench import plot
from bench.page import STYLE, document, facts, figure


def test_text_stays_text() -> None:
    assert "<title>a &lt; b</title>" in document("a < b", "<p>x</p>")
    assert "<p>x</p>" in document("a < b", "<p>x</p>")
    assert "a &lt; b" in figure("a < b", "c", "<svg></svg>")
    assert facts({"a<": "b>", "command": "x & y"}) == (
        "<dl><dt>a&lt;</dt><dd>b&gt;</dd><dt>command</dt><dd><code>x &amp; y</code></dd></dl>"
    )


def test_every_colour_is_there_in_the_light_and_in_the_dark() -> None:
    used = {*plot.COLOURS, plot.INK, plot.FAINT, plot.GRID, plot.ALARM, *re.findall(r"var\(--[a-z0-9-]+\)", STYLE)}
    for theme in re.findall(r":root \{([^}]*)\}", STYLE):
        for colour in used:
            assert f"{colour[4:-1]}: " in theme
    assert len(re.findall(r":root", STYLE)) == 2
