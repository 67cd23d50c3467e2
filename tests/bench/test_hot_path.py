"""The measurement of the hot path measures, and what it measures does its work."""

from pathlib import Path

import pytest

from bench import hot_path, results
from bench.results import Result
from realtime_tts.engine.scheduling.policy import SCHEDULERS


@pytest.mark.parametrize("shared_lane", [False, True])
def test_the_snapshot_that_is_timed_has_something_to_decide(shared_lane: bool) -> None:
    snapshot = hot_path.busy_snapshot(256, shared_lane=shared_lane)
    batch = SCHEDULERS["deadline"].policy(snapshot, snapshot.stages[-1].lane)
    assert batch is not None
    assert batch.stage == ("talker" if shared_lane else "code2wav")
    assert batch.rows


def test_it_prints_and_writes_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hot_path, "PACKETS", 50)
    monkeypatch.setattr(hot_path, "DECISIONS", 3)
    hot_path.main(["--json", str(tmp_path / "a.json")])
    out = capsys.readouterr().out
    assert "4096" in out
    assert "send path" in out
    (result,) = results.loads_any((tmp_path / "a.json").read_bytes())
    assert isinstance(result, Result)
    assert [row[0] for row in result.tables[0].rows] == [64, 256, 1024, 4096]
