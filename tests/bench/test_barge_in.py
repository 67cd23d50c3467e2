"""Barge-ins by the hundred against a real server: nothing of what was cancelled is heard, and nothing stays behind."""

from pathlib import Path

import pytest

from bench import barge_in, results
from bench.results import Result
from realtime_tts.engine.models import tone
from tests.fakes import slots
from tests.serving import tone_server


async def test_nothing_of_a_cancelled_context_follows_and_nothing_stays_behind() -> None:
    model = tone.build(profile="h200")
    async with tone_server(model) as (url, _):
        tally = await barge_in.measure(url, cancels=300, connections=3)
    assert tally.errors == []
    assert (tally.cancels, tally.frames_after, tally.torn_texts) == (300, 0, 0)
    assert len(tally.next_s) > 50
    assert slots(model) == 0


def test_what_was_seen_is_told_and_a_broken_promise_is_a_failure() -> None:
    tally = barge_in.Tally(cancels=2, latency_s=[0.001, 0.003], fresh_s=[0.1], next_s=[])
    assert not tally.broken
    text = barge_in.told(tally)
    assert "p99     3.0 ms" in text
    assert "right after a barge-in  none" in text
    tallies = (barge_in.Tally(), barge_in.Tally(cancels=1, frames_after=1), barge_in.Tally(cancels=1, torn_texts=1))
    assert all(broken.broken for broken in tallies)


def test_a_short_run_of_its_own_is_told_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.json"
    assert barge_in.main(["--cancels", "12", "--profile", "free", "-c", "2", "--json", str(file)]) == 0
    assert "12 cancels" in capsys.readouterr().out
    (result,) = results.loads_any(file.read_bytes())
    assert isinstance(result, Result)
    assert result.headline == "12 barge-ins: 0 frames came after the last word about them"
    assert [row[1] for row in result.tables[0].rows] == [0, 0, 0]
    assert result.tables[1].rows[0][:2] == ("cancel to audio.cancelled", 12)


def test_a_broken_promise_is_in_the_figures() -> None:
    tally = barge_in.Tally(cancels=2, frames_after=3, torn_texts=4, errors=["no"], latency_s=[0.001, 0.003])
    result = barge_in.reported(tally, {})
    assert [row[1] for row in result.tables[0].rows] == [3, 4, 1]
    ((name, *figures),) = result.tables[1].rows
    assert name == "cancel to audio.cancelled"
    assert figures == pytest.approx([2, 2.0, 2.98, 3.0])
    assert result.notes == ("no",)


def test_the_load_of_others_is_refused() -> None:
    assert barge_in.main(["--url", "http://example.com"]) == 2
    with pytest.raises(SystemExit):
        barge_in.main(["--cancels", "0"])
