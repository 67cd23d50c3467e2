"""Simulated speakers: nothing that is sent ahead is lost, and new listeners wait no longer for it."""

from dataclasses import replace

import pytest

from bench import speakers
from bench.simulate import device_of
from realtime_tts.engine.config import EngineConfig

H20 = device_of("h20", shared_lane=False)
PLAN = speakers.SpeakersPlan(users=32, utterances=4, duration_s=30.0)


def p95_s(values_s: tuple[float, ...]) -> float:
    return sorted(values_s)[round(0.95 * (len(values_s) - 1))]


def test_on_a_full_device_no_utterance_sent_ahead_is_lost_and_nobody_has_gaps() -> None:
    found = speakers.SpeakersLoad(H20, PLAN, EngineConfig()).run()
    assert found.sent_ahead > 100
    assert found.refused > 0, "the device is full"
    assert found.lost == 0
    assert max(found.gaps_s) < 0.1
    assert p95_s(found.pauses_s) < 0.1


@pytest.mark.slow
def test_new_listeners_who_are_admitted_wait_as_long_as_without_utterances_sent_ahead() -> None:
    """354 ms was the 95th percentile when utterances that were sent ahead could be refused."""
    plan = replace(PLAN, duration_s=120.0)
    waits_s = [speakers.SpeakersLoad(H20, replace(plan, seed=seed), EngineConfig()).run().waits_s for seed in range(3)]
    assert p95_s(tuple(wait for run in waits_s for wait in run)) < 1.1 * 0.354


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert speakers.main(["-c", "4", "--utterances", "2", "--duration", "10", "--seeds", "1"]) == 0
    out = capsys.readouterr().out
    assert "lost, of sent ahead" in out
    assert "c=4, 2 utterances | " in out
