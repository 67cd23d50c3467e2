"""Results as a file: what is written is what is read, with the conditions."""

import pytest

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


def test_what_is_written_is_what_is_read() -> None:
    run = Run("a", OUTCOMES, duration_s=10, warm_up_s=0.7, conditions={"command": "python"})
    assert results.loads(results.dumps(run)) == run
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


def test_any_result_is_written_and_read_alone_or_in_a_list() -> None:
    run = Run("a", OUTCOMES, duration_s=10)
    assert results.loads_any(results.dumps(RESULT)) == (RESULT,)
    assert results.loads_any(results.dumps(run)) == (run,)
    assert results.loads_any(b" " + results.dumps_all([run, RESULT])) == (run, RESULT)
    assert results.loads_any(results.dumps_all([])) == ()


@pytest.mark.parametrize("data", [b"{}", b"", b"[{}]", b'{"bench": "bench.some"}', b'{"bench": 1}', b"7"])
def test_what_is_no_result_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        results.loads_any(data)
    with pytest.raises(ValueError, match=r"."):
        results.loads(data)


def test_a_table_is_a_rectangle() -> None:
    with pytest.raises(ValueError, match="as long as the 2 columns"):
        Table("Some", ("name", "µs"), (("ours", 1), ("theirs",)))


def test_the_conditions_name_command_commit_and_hardware() -> None:
    told = results.conditions("bench.load", ["--label", "a b"])
    assert told["command"] == "python -m bench.load --label 'a b'"
    assert all(told[name] for name in ("commit", "processor", "cores", "machine", "python", "measured"))
