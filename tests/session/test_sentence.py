"""The state of a sentence: played time, word times, speed without a model's support."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import AudioReady, SynthesisRequest, Word, WordsReady
from realtime_tts.engine.models import tone
from realtime_tts.errors import SynthesisFailed
from realtime_tts.frontends.native.messages import AudioDone, AudioStart, AudioTimestamps
from realtime_tts.session.sentence import SentenceState
from tests.session.harness import DONE, INFO, Harness, configured

TEXT = "A sentence of some length."
MINIMAL = dataclasses.replace(INFO, fields=frozenset())
FRAMES = len(tone.codes(SynthesisRequest("r", "s", TEXT, "tone_low")))


def state_of(harness: Harness) -> SentenceState:
    context = harness.session._contexts.get(None)
    assert context is not None
    (utterance,) = context.utterances
    return utterance.begun[0]


@given(waits_s=st.lists(st.floats(0, 0.5), min_size=FRAMES, max_size=FRAMES), times_s=st.lists(st.floats(0, 20)))
@settings(max_examples=30)
def test_played_time_grows_up_to_the_audio_sent(waits_s: list[float], times_s: list[float]) -> None:
    harness = configured()
    harness.text(TEXT)
    harness.client(DONE)
    for number, wait_s in enumerate(waits_s):
        harness.now_s += wait_s
        harness.audio(harness.submitted[0], slice(number, number + 1))
    state = state_of(harness)
    played_s = [state.played_s(at_s) for at_s in sorted(times_s)]
    assert played_s == sorted(played_s)
    assert all(0 <= each <= state.audio_sent_s + 1e-9 for each in played_s)
    assert state.audio_sent_s == pytest.approx(FRAMES * 0.08)
    assert state.played_s(harness.playout_end_s) == pytest.approx(state.audio_sent_s)


def test_a_gap_does_not_count_as_played_time() -> None:
    harness = configured()
    harness.text(TEXT)
    harness.client(DONE)
    harness.audio(harness.submitted[0], slice(0, 5))  # 0.4 s
    harness.now_s = 1.0
    harness.audio(harness.submitted[0], slice(5, 10))
    state = state_of(harness)
    assert [state.played_s(at_s) for at_s in (0.3, 0.9, 1.1)] == pytest.approx([0.3, 0.4, 0.5])


def test_missing_word_times_are_reported_as_failed_unless_the_sentence_failed() -> None:
    for error, statuses in ((None, ["failed"]), (SynthesisFailed("broken"), [])):
        harness = configured(word_timestamps=True)
        harness.text(TEXT)
        harness.client(DONE)
        harness.audio(harness.submitted[0])
        harness.finish(harness.submitted[0], error)
        assert [message.status for message in harness.of(AudioTimestamps)] == statuses, error


def test_requested_word_times_are_sent_before_the_audio() -> None:
    harness = configured(word_timestamps=True)
    harness.text("Hello world.\n")
    (request,) = harness.submitted
    words = (Word(0, 5, 0.0, 0.4), Word(6, 12, 0.45, 0.9))
    harness.execute(harness.session.on_engine(WordsReady(request.request_id, words), 0.0))
    harness.complete(request)
    message = harness.of(AudioTimestamps)[-1]
    assert [(w.word, w.start_ms, w.end_ms, w.text_span) for w in message.words] == [
        ("Hello", 0.0, 400.0, (0, 5)),
        ("world.", 450.0, 900.0, (6, 12)),
    ]
    assert harness.sent.index(message) < harness.sent.index(harness.of(bytes)[0])


def test_word_times_of_a_model_without_them_are_reported_as_unsupported() -> None:
    harness = Harness(info=MINIMAL)
    harness.client({"type": "session.config", "word_timestamps": True, "stream_audio": True})
    harness.text(TEXT)
    harness.client(DONE)
    harness.complete_all()
    assert [message.status for message in harness.of(AudioTimestamps)] == ["unsupported"]


def test_audio_of_a_model_without_speed_is_stretched() -> None:
    harness = Harness(info=MINIMAL)
    harness.client({"type": "session.config", "speed": 2.0, "stream_audio": True, "response_format": "pcm"})
    harness.text(TEXT)
    harness.client(DONE)
    assert harness.submitted[0].speed == 1.0, "the model does not support another speed"
    samples = tone.render(harness.submitted[0])
    harness.execute(harness.session.on_engine(AudioReady(harness.submitted[0].request_id, samples), 0.0))
    harness.finish(harness.submitted[0])
    assert harness.of(AudioDone)[0].samples == pytest.approx(len(samples) / 2, abs=1)
    assert harness.sent_samples == {harness.submitted[0].request_id: len(samples)}
    assert len(harness.of(AudioStart)) == 1
