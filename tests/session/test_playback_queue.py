"""One playout clock, sentences in the order of hearing, and an engine that is told of every sample."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models import tone
from realtime_tts.errors import SynthesisFailed
from tests.session.harness import DONE, Harness, configured

TEXT = "One is here, and it is long. Two is here. Three is here."


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"sample_rate": 8000},
        {"sample_rate": 44_100, "frame_header": True},
        {"stream_audio": False, "response_format": "wav"},
    ],
)
@given(cuts=st.lists(st.integers(1, 5), max_size=30))
@settings(deadline=None, max_examples=25)
def test_the_engine_is_told_of_every_sample_once(config: dict[str, object], cuts: list[int]) -> None:
    harness = Harness()
    harness.client({"type": "session.config", "response_format": "pcm", "stream_audio": True, **config})
    harness.text(TEXT)
    harness.client(DONE)
    spoken = 0
    while spoken < len(harness.submitted):
        request = harness.submitted[spoken]
        at, total = 0, len(tone.codes(request))
        for cut in [*cuts, total]:
            if at < total:
                harness.audio(request, slice(at, at + cut))
                at += cut
        harness.finish(request)
        spoken += 1
    expected = {request.request_id: len(tone.render(request)) for request in harness.submitted}
    assert harness.sent_samples == expected


def test_of_a_failed_whole_file_too_for_nothing_of_it_will_ever_be_sent() -> None:
    harness = Harness()
    harness.text("One is bad.")
    harness.client(DONE)
    (request,) = harness.submitted
    harness.audio(request, slice(0, 3))
    harness.finish(request, SynthesisFailed("it broke"))
    assert harness.sent_samples == {request.request_id: 3 * 1920}


def test_a_client_who_will_run_dry_sooner_is_served_sooner_and_later_changes_nothing() -> None:
    harness = configured()
    harness.text(TEXT)
    harness.speak(harness.submitted[0])
    end_s = harness.playout_end_s
    harness.client({"type": "playback.report", "played_ms": 0, "buffered_ms": end_s * 1000 + 500})
    assert harness.playout_end_s == end_s
    harness.client({"type": "playback.report", "played_ms": 0, "buffered_ms": end_s * 1000 - 100})
    assert harness.playout_end_s == pytest.approx(end_s - 0.1)
    harness.client({"type": "playback.report", "played_ms": 0, "buffered_ms": 0})
    assert harness.playout_end_s == pytest.approx(end_s - 0.25), "nobody can talk himself to the front"


def test_an_utterance_waits_for_the_one_before_it_even_where_that_has_nothing_to_say_yet() -> None:
    """Else its sentences would hold the places with the engine, and those heard before them would never get one."""
    harness = configured()
    harness.text("a")  # begins, and has no sentence yet
    harness.text("One is here. Two is here. Three is here.\n", context_id="b")
    assert harness.submitted == []
    harness.client(DONE)
    assert [request.text for request in harness.submitted] == ["a", "One is here."]
