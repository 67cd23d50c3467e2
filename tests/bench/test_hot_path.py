"""The measurement of the hot path measures, and what it measures does its work."""

import pytest

from bench import hot_path
from realtime_tts.engine.policy import SCHEDULERS


@pytest.mark.parametrize("shared_lane", [False, True])
def test_the_snapshot_that_is_timed_has_something_to_decide(shared_lane: bool) -> None:
    snapshot = hot_path.busy_snapshot(256, shared_lane=shared_lane)
    batch = SCHEDULERS["deadline"].policy(snapshot, snapshot.stages[-1].lane)
    assert batch is not None
    assert batch.stage == ("talker" if shared_lane else "code2wav")
    assert batch.rows


def test_it_prints_its_figures(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot_path, "PACKETS", 50)
    monkeypatch.setattr(hot_path, "DECISIONS", 3)
    monkeypatch.setattr("sys.argv", ["hot_path"])
    hot_path.main()
    out = capsys.readouterr().out
    assert "4096" in out
    assert "send path" in out
