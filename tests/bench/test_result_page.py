"""A result as text and as figures: as many digits as are read, and what is no number is a dash."""

import math

import pytest

from bench import result_page
from bench.results import Result, Table


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        *((None, "-"), (math.inf, "-"), (math.nan, "-"), ("at least 7", "at least 7"), (1234567, "1234567")),
        *((1234.56, "1235"), (12.345, "12.3"), (1.2345, "1.23"), (0.012345, "0.0123"), (-99.96, "-100.0"), (0.0, "0")),
    ],
)
def test_a_cell_has_the_digits_that_are_read(cell: str | float | None, words: str) -> None:
    assert result_page.shown(cell) == words


def test_a_terminal_gets_columns_and_notes() -> None:
    table = Table("Some", ("name", "µs"), (("ours", 12.345), ("theirs, too", None)))
    text = result_page.as_text(Result("bench.some", "Is it quick?", {}, "Yes.", tables=(table,), notes=("Mind.",)))
    assert text.splitlines() == [
        *(
            "Is it quick?",
            "Yes.",
            "",
            "Some",
            "name           µs",
            "ours         12.3",
            "theirs, too     -",
            "",
            "- Mind.",
        )
    ]
