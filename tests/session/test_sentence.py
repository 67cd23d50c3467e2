"""A sentence on its way: what it owes its client, and when what it has sent is heard."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import AudioReady, SynthesisRequest
from realtime_tts.engine.models import tone
from realtime_tts.errors import SynthesisFailed
from realtime_tts.frontends.native.messages import AudioDone, AudioStart, AudioTimestamps
from realtime_tts.session.sentence import SentenceState
from tests.session.harness import DONE, INFO, Harness, configured

TEXT = "A sentence of some length."
PLAIN = dataclasses.replace(INFO, fields=frozenset())
FRAMES = len(tone.codes(SynthesisRequest("r", "s", TEXT, "tone_low")))


def state_of(harness: Harness) -> SentenceState:
    context = harness.session._contexts.get(None)
    assert context is not None
    (utterance,) = context.utterances
    return utterance.begun[0]


@given(waits_s=st.lists(st.floats(0, 0.5), min_size=FRAMES, max_size=FRAMES), looks_s=st.lists(st.floats(0, 20)))
@settings(deadline=None, max_examples=50)
def test_what_was_heard_grows_with_time_and_never_beyond_what_was_sent(
    waits_s: list[float], looks_s: list[float]
) -> None:
    harness = configured()
    harness.text(TEXT)
    harness.client(DONE)
    for number, wait_s in enumerate(waits_s):
        harness.now_s += wait_s
        harness.audio(harness.submitted[0], slice(number, number + 1))
    state = state_of(harness)
    heard = [state.played_s(at_s) for at_s in sorted(looks_s)]
    assert heard == sorted(heard)
    assert all(0 <= each <= state.audio_sent_s + 1e-9 for each in heard)
    assert state.audio_sent_s == pytest.approx(FRAMES * 0.08)
    assert state.played_s(harness.playout_end_s) == pytest.approx(state.audio_sent_s)


def test_a_gap_is_not_time_heard() -> None:
    harness = configured()
    harness.text(TEXT)
    harness.client(DONE)
    harness.audio(harness.submitted[0], slice(0, 5))  # 0.4 s
    harness.now_s = 1.0
    harness.audio(harness.submitted[0], slice(5, 10))
    state = state_of(harness)
    assert [state.played_s(at_s) for at_s in (0.3, 0.9, 1.1)] == pytest.approx([0.3, 0.4, 0.5])


def test_words_that_never_came_are_told_as_failed_and_of_a_failed_sentence_nothing() -> None:
    for error, statuses in ((None, ["failed"]), (SynthesisFailed("broken"), [])):
        harness = configured(word_timestamps=True)
        harness.text(TEXT)
        harness.client(DONE)
        harness.audio(harness.submitted[0])
        harness.finish(harness.submitted[0], error)
        assert [message.status for message in harness.of(AudioTimestamps)] == statuses


def test_words_that_the_model_does_not_tell_are_unsupported() -> None:
    harness = Harness(info=PLAIN)
    harness.client({"type": "session.config", "word_timestamps": True, "stream_audio": True})
    harness.text(TEXT)
    harness.client(DONE)
    harness.speak_all()
    assert [message.status for message in harness.of(AudioTimestamps)] == ["unsupported"]


def test_a_model_without_a_pace_is_stretched_and_every_time_with_it() -> None:
    harness = Harness(info=PLAIN)
    harness.client({"type": "session.config", "speed": 2.0, "stream_audio": True, "response_format": "pcm"})
    harness.text(TEXT)
    harness.client(DONE)
    assert harness.submitted[0].speed == 1.0, "it would not know what to do with another"
    samples = tone.render(harness.submitted[0])
    harness.carry_out(harness.session.on_engine(AudioReady(harness.submitted[0].request_id, samples), 0.0))
    harness.finish(harness.submitted[0])
    assert harness.of(AudioDone)[0].samples == pytest.approx(len(samples) / 2, abs=1)
    assert harness.sent_samples == {harness.submitted[0].request_id: len(samples)}
    assert len(harness.of(AudioStart)) == 1
