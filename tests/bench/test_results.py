"""Results as a file: unchanged by writing and reading, with the conditions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import results
from bench.results import Bar, Bars, Line, Plot, Result, Run, Table
from bench.summary import Packet, ServerFigures, Status, judge

OUTCOMES = (
    judge(
        intended_s=0.5,
        sent_s=0.6,
        ended_s=3,
        status=Status.OK,
        timeline=[Packet(1, 1), Packet(2.5, 1)],
        server=ServerFigures(0.4, 0.5),
        text="Hello.",
    ),
    judge(intended_s=1, ended_s=1.1, status=Status.REFUSED, retry_after_s=5, reason="full"),
)


def test_a_run_is_summarised_without_its_warm_up() -> None:
    run = Run("a", OUTCOMES, duration_s=10, warm_up_s=0.7, conditions={"command": "python"})
    assert [outcome.status for outcome in run.counted] == [Status.REFUSED]
    assert run.summary().requests == 1


RESULT = Result(
    bench="bench.some",
    title="Is it quick?",
    conditions={"command": "python"},
    tables=(Table("Some", ("name", "µs"), (("ours", 12.3), ("theirs", None), ("third", 4))),),
    plots=(Plot("A plot", "streams", "share", (Line("ours", ((1.0, 0.1),), dashed=True),), logarithmic=True),),
    bars=(Bars("Some bars", "µs", (Bar("ours", 3.0, 2.5, 4.0),)),),
    notes=("A note.",),
)


def test_runs_and_results_are_read_as_they_were_written() -> None:
    run = Run("a", OUTCOMES, duration_s=10)
    lists: list[list[Run | Result]] = [[run], [RESULT], [run, RESULT], []]
    for found in lists:
        assert results.loads(results.dumps(found)) == tuple(found)


def test_other_files_are_refused() -> None:
    for data in (b"{}", b"", b"[{}]", b'[{"bench": "bench.some"}]', b'[{"bench": 1}]', b"7"):
        with pytest.raises(ValueError, match=r"."):
            results.loads(data)


FINITE = st.integers(-(10**9), 10**9).map(lambda thousandths: thousandths / 1000)


@settings(max_examples=50)
@given(st.lists(FINITE))
def test_a_distribution_rises_from_0_to_1(values: list[float]) -> None:
    points = results.cumulative(values)
    assert list(points) == sorted(points)
    assert bool(points) is bool(values)
    if values:
        assert points[0] == (min(values), 0.0)
        assert points[-1] == (max(values), 1.0)


def test_a_large_distribution_is_thinned() -> None:
    points = results.cumulative(list(map(float, range(10_000))))
    assert len(points) == results.MAX_CUMULATIVE_POINTS + 1
    assert points[-1] == (9999.0, 1.0)


def test_a_table_is_a_rectangle() -> None:
    with pytest.raises(ValueError, match="must have 2 values"):
        Table("Some", ("name", "µs"), (("ours", 1), ("theirs",)))


def test_the_conditions_name_command_commit_and_hardware() -> None:
    named = results.conditions("bench.load", ["--label", "a b"])
    assert named["command"] == "python -m bench.load --label 'a b'"
    assert all(named[name] for name in ("commit", "processor", "cores", "machine", "python", "measured"))
