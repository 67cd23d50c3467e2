"""Barge-ins on a real server: no audio of a cancelled context, and no state left in the engine."""

from pathlib import Path

import pytest

from bench import barge_in, results
from bench.barge_in import Counts
from bench.results import Result
from bench.tables import as_text
from realtime_tts.engine.models import tone
from tests.fakes import slots
from tests.serving import tone_server


@pytest.mark.slow
async def test_no_audio_follows_a_cancellation_and_no_state_remains() -> None:
    model = tone.build(profile="h200")
    async with tone_server(model) as (url, _):
        counts = await barge_in.measure(url, cancels=300, connections=3)
    assert counts.errors == []
    assert (counts.cancels, counts.late_frames, counts.text_mismatches) == (300, 0, 0)
    assert len(counts.next_first_audio_s) > 50
    assert slots(model) == 0


def test_a_short_run_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.json"
    assert barge_in.main(["--cancels", "12", "--profile", "free", "-c", "2", "--json", str(file)]) == 0
    assert "12 barge-ins" in capsys.readouterr().out
    (result,) = results.loads(file.read_bytes())
    assert isinstance(result, Result)
    assert result.headline == "12 barge-ins, 0 audio frames after a cancellation"
    assert [row[1] for row in result.tables[0].rows] == [0, 0, 0]
    assert result.tables[1].rows[0][:2] == ("cancel to audio.cancelled", 12)


def test_every_violation_is_a_failure() -> None:
    assert not Counts(cancels=2).failed
    for counts in (Counts(), Counts(cancels=1, late_frames=1), Counts(cancels=1, text_mismatches=1)):
        assert counts.failed, counts
    assert Counts(cancels=1, errors=["no"]).failed


def test_violations_and_latencies_are_in_the_result() -> None:
    counts = Counts(cancels=2, late_frames=3, text_mismatches=4, errors=["no"], cancel_s=[0.001, 0.003])
    result = barge_in.result_of(counts, {})
    assert [row[1] for row in result.tables[0].rows] == [3, 4, 1]
    ((name, *figures),) = result.tables[1].rows
    assert name == "cancel to audio.cancelled"
    assert figures == pytest.approx([2, 2.0, 2.98, 3.0])
    assert result.notes == ("no",)
    assert "2.98" in as_text(result)


def test_remote_servers_and_invalid_numbers_are_refused() -> None:
    assert barge_in.main(["--url", "http://example.com"]) == 2
    with pytest.raises(SystemExit):
        barge_in.main(["--cancels", "0"])
