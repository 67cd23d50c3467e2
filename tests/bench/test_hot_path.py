"""The measurement of the hot path does real work, and its figures are written."""

import asyncio
import sys
from pathlib import Path
from types import FrameType

import pytest

from bench import hot_path, results
from bench.results import Result
from realtime_tts.engine.scheduling.policy import SCHEDULERS


def test_the_timed_snapshot_requires_a_decision() -> None:
    for shared_lane, stage in ((False, "code2wav"), (True, "talker")):
        snapshot = hot_path.busy_snapshot(256, shared_lane=shared_lane)
        batch = SCHEDULERS["deadline"].policy(snapshot, snapshot.stages[-1].lane)
        assert batch is not None
        assert batch.stage == stage
        assert batch.rows


def test_the_figures_are_printed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hot_path, "PACKETS", 50)
    monkeypatch.setattr(hot_path, "DECISIONS", 3)
    hot_path.main(["--json", str(tmp_path / "a.json")])
    out = capsys.readouterr().out
    assert "4096" in out
    assert "send path" in out
    (result,) = results.loads((tmp_path / "a.json").read_bytes())
    assert isinstance(result, Result)
    assert [row[0] for row in result.tables[0].rows] == [64, 256, 1024, 4096]


def test_a_packet_of_audio_needs_few_calls_of_python_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    def calls_of(packets: int) -> int:
        nonlocal calls
        calls = 0
        monkeypatch.setattr(hot_path, "PACKETS", packets)
        sys.setprofile(count)
        try:
            asyncio.run(hot_path.send_path_us())
        finally:
            sys.setprofile(None)
        return calls

    calls_of(10)  # fills the caches of regular expressions and the like
    # After a pause each call takes several times as long as in a tight loop, see bench/RESULTS.md.
    assert (calls_of(1100) - calls_of(100)) / 1000 <= 52
