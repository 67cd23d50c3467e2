"""The playback queue: playback order, samples reported to the engine, deadlines corrected by the client."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models import tone
from realtime_tts.errors import SynthesisFailed
from tests.session.harness import DONE, Harness, configured

TEXT = "One is here, and it is long. Two is here. Three is here."


CONFIGS: list[dict[str, object]] = [
    {},
    {"sample_rate": 8000},
    {"sample_rate": 44_100, "frame_header": True},
    {"stream_audio": False, "response_format": "wav"},
]


@given(config=st.sampled_from(CONFIGS), chunk_frames=st.lists(st.integers(1, 5), max_size=30))
@settings(max_examples=60)
def test_every_sample_is_reported_to_the_engine_once(config: dict[str, object], chunk_frames: list[int]) -> None:
    harness = Harness()
    harness.client({"type": "session.config", "response_format": "pcm", "stream_audio": True, **config})
    harness.text(TEXT)
    harness.client(DONE)
    for request in harness.submitted:  # grows meanwhile: each completed sentence submits another
        at, total = 0, len(tone.codes(request))
        for frames in [*chunk_frames, total]:
            if at < total:
                harness.audio(request, slice(at, at + frames))
                at += frames
        harness.finish(request)
    expected = {request.request_id: len(tone.render(request)) for request in harness.submitted}
    assert harness.sent_samples == expected


def test_the_samples_of_a_failed_whole_file_are_reported_although_none_is_sent() -> None:
    harness = Harness()
    harness.text("One is bad.")
    harness.client(DONE)
    (request,) = harness.submitted
    harness.audio(request, slice(0, 3))
    harness.finish(request, SynthesisFailed("it broke"))
    assert harness.sent_samples == {request.request_id: 3 * 1920}


def test_a_reported_buffer_can_only_shorten_the_deadline_and_only_within_a_bound() -> None:
    harness = configured()
    harness.text(TEXT)
    harness.complete(harness.submitted[0])
    end_s = harness.playout_end_s
    harness.client({"type": "playback.report", "played_ms": 0, "buffered_ms": end_s * 1000 + 500})
    assert harness.playout_end_s == end_s
    harness.client({"type": "playback.report", "played_ms": 0, "buffered_ms": end_s * 1000 - 100})
    assert harness.playout_end_s == pytest.approx(end_s - 0.1)
    harness.client({"type": "playback.report", "played_ms": 0, "buffered_ms": 0})
    assert harness.playout_end_s == pytest.approx(end_s - 0.25), "a client cannot raise its priority without bound"


def test_an_utterance_waits_for_an_open_one_before_it() -> None:
    """Otherwise its sentences would occupy the slots at the engine that sentences before them need."""
    harness = configured()
    harness.text("a")  # open, without a complete sentence
    harness.text("One is here. Two is here. Three is here.\n", context_id="b")
    assert harness.submitted == []
    harness.client(DONE)
    assert [request.text for request in harness.submitted] == ["a", "One is here."]
