"""Text tables: significant digits, ranges, and aligned columns."""

import math

from bench import tables
from bench.results import Result, Run, Table
from bench.summary import Packet, Status, judge


def test_values_have_three_significant_digits() -> None:
    for value, text in (
        *((None, "-"), (math.inf, "-"), (math.nan, "-"), ("at least 7", "at least 7"), (1234567, "1234567")),
        *((1234.56, "1235"), (12.345, "12.3"), (1.2345, "1.23"), (0.012345, "0.0123"), (-99.96, "-100.0"), (0.0, "0")),
    ):
        assert tables.format_value(value) == text


def test_a_spread_is_the_median_and_the_range_of_several_values() -> None:
    assert tables.format_spread([]) == "-"
    assert tables.format_spread([2.0]) == "2.0"
    assert tables.format_spread([1.0, 4.0, 2.0], 0) == "2 (1 to 4)"


def test_a_result_as_text_has_its_tables_and_notes() -> None:
    table = Table("Some", ("name", "µs"), (("ours", 12.345), ("theirs, too", None)), "Of one run.")
    text = tables.as_text(Result("bench.some", "Speed", {}, "Fast.", tables=(table,), notes=("A note.",)))
    assert text.splitlines() == [
        *("Speed", "Fast.", "", "Some (Of one run)", "name        |   µs"),
        *("ours        | 12.3", "theirs, too |    -", "", "- A note."),
    ]


def test_runs_are_aligned_and_missing_figures_are_dashes() -> None:
    packets = [Packet(0.2, 0.5), Packet(1.7, 1.0)]
    late = judge(intended_s=0, ended_s=1.7, status=Status.OK, timeline=packets)
    text = tables.run_text([Run("ours", (late,), 2.0), Run("a longer name", (), 2.0)])
    heading, ours, empty = text.splitlines()
    assert len({len(line) for line in (heading, ours, empty)}) == 1
    assert "underrun p50/p95/p99 ms" in heading
    assert "1000/1000/1000" in ours
    assert "-/-/-" in empty
