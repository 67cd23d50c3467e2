"""Results as a file: what is written is what is read, with the conditions."""

import pytest

from bench import results
from bench.results import Run
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


def test_what_is_no_run_is_refused() -> None:
    with pytest.raises(ValueError, match=r"."):
        results.loads(b"{}")


def test_the_conditions_name_command_commit_and_hardware() -> None:
    told = results.conditions("bench.load", ["--label", "a b"])
    assert told["command"] == "python -m bench.load --label 'a b'"
    assert all(told[name] for name in ("commit", "processor", "cores", "machine", "python"))
