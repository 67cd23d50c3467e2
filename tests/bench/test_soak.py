"""Soak test: a short run on a server of its own; faults and leaks decide the exit status."""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from bench import results, soak
from bench.results import Result
from bench.soak import Counts, Soak, behave, log_lines, result_of
from bench.tables import as_text
from tests.bench.test_soak_resources import IDLE
from tests.serving import tone_server


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_short_run_finds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.json"
    assert soak.main(["--minutes", "0.05", "--clients", "3", "--json", str(file)]) == 0
    assert "nothing leaked" in capsys.readouterr().out
    (result,) = results.loads(file.read_bytes())
    assert isinstance(result, Result)
    assert {row[3] for row in result.tables[0].rows} == {0}
    assert result.plots[0].lines[0].points


def run(faults: int = 0, tasks: int = 0, finished: int = 5) -> Soak:
    counts = Counts(Counter({"contexts": finished}), faults=Counter({"barge-in": faults}) if faults else Counter())
    counts.descriptions += ["barge-in: Fault: other bytes"] * faults
    return Soak(counts, IDLE, (IDLE, replace(IDLE, at_s=60.0)), replace(IDLE, tasks=IDLE.tasks + tasks))


def test_a_fault_or_a_leak_is_a_failure_and_so_is_an_idle_run() -> None:
    assert not run().failed
    for failed in (run(faults=1), run(tasks=1), run(finished=0)):
        assert failed.failed
    text = as_text(result_of(run(faults=1, tasks=1), {}))
    assert "5 rounds in 1.0 minutes, 1 faults; 5 tasks, 4 before" in text
    assert "other bytes" in text


async def test_how_a_behaviour_ended_is_counted() -> None:
    counts = Counts()
    async with tone_server() as (url, _server):
        await behave("pages over HTTP", url, Random(0), counts)
    await behave("pages over HTTP", url, Random(0), counts)
    assert (counts.finished.total(), counts.refused.total(), counts.faults.total()) == (1, 0, 1)
    assert counts.descriptions[0].startswith("pages over HTTP: ClientConnectorError")


def test_warnings_and_errors_of_the_server_are_shown() -> None:
    log = "Ready\n2026 [warning  ] many sessions\n2026 [error    ] a request has failed\n2026 [info     ] fine\n"
    assert [line.split("] ")[1] for line in log_lines(log)] == ["many sessions", "a request has failed"]


def test_invalid_numbers_are_refused() -> None:
    for arguments in (["--minutes", "0"], ["--clients", "0"]):
        with pytest.raises(SystemExit):
            soak.main(arguments)
