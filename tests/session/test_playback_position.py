"""The playback position in the client's own text: whole words, no text lost or repeated."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import SynthesisRequest, Word, WordsReady
from realtime_tts.engine.models import tone
from realtime_tts.frontends.native.messages import AudioCancelled, AudioDone, AudioTimestamps
from tests.session.harness import DONE, Harness, configured

TEXT = "One two three. Four five six seven. And the last one."


def cancelled(harness: Harness, **fields: Any) -> AudioCancelled:
    harness.client({"type": "input.cancel", **fields})
    message = harness.of(AudioCancelled)[-1]
    assert isinstance(message, AudioCancelled)
    return message


def completed(text: str = TEXT, **config: Any) -> Harness:
    harness = configured(**config)
    harness.text(text)
    harness.client(DONE)
    harness.complete_all()
    return harness


@given(st.floats(0, 6000))
@settings(max_examples=30)
def test_the_spoken_and_the_remaining_text_together_are_the_text(offset_ms: float) -> None:
    harness = completed()
    message = cancelled(harness, playback_offset_ms=offset_ms)
    assert message.text_spoken + message.text_remaining == TEXT
    assert message.text_spoken == "" or message.text_spoken[-1] not in " " or message.text_remaining == ""
    assert message.source == "reported"
    assert message.audio_played_ms == pytest.approx(min(offset_ms, message.audio_sent_ms), abs=0.06)


def test_the_spoken_text_grows_word_by_word_with_the_playback_position() -> None:
    spoken = [len(cancelled(completed(), playback_offset_ms=at).text_spoken) for at in range(0, 5200, 100)]
    assert spoken == sorted(spoken)
    assert spoken[0] == 0
    assert spoken[-1] == len(TEXT)
    assert len(set(spoken)) > 8, "it grows by single words"


def test_the_spoken_text_ends_with_a_whole_word() -> None:
    for offset_ms in range(0, 4000, 37):
        spoken = cancelled(completed(), playback_offset_ms=offset_ms).text_spoken
        assert spoken == TEXT[: len(spoken)]
        assert len(spoken) == len(TEXT) or not (spoken and TEXT[len(spoken)].isalnum() and spoken[-1].isalnum())


def test_without_a_report_the_playback_position_is_estimated_from_the_times_of_sending() -> None:
    harness = completed()
    total_ms = harness.playout_end_s * 1000
    harness.now_s = total_ms / 2000
    message = cancelled(harness)
    assert message.source == "estimated"
    assert message.audio_sent_ms == pytest.approx(total_ms)
    assert message.audio_played_ms == pytest.approx(total_ms / 2)
    assert message.text_spoken.startswith("One two three.")
    assert message.text_remaining.endswith("last one.")


def test_a_playback_report_corrects_the_estimate() -> None:
    harness = completed()
    harness.now_s = 2.0
    harness.client({"type": "playback.report", "played_ms": 1400})  # 600 ms are in its jitter buffer
    harness.now_s = 2.5
    assert cancelled(harness).audio_played_ms == pytest.approx(1900)


def test_word_times_of_the_model_are_used_if_available() -> None:
    harness = configured()
    harness.text("Slowly now.\n")
    (request,) = harness.submitted
    words = (Word(0, 6, 0.0, 0.7), Word(7, 11, 0.7, 0.8))
    harness.execute(harness.session.on_engine(WordsReady(request.request_id, words), 0.0))
    harness.complete(request)
    assert cancelled(harness, playback_offset_ms=600).text_spoken == "Slowly"


def test_the_length_of_an_unfinished_sentence_is_estimated() -> None:
    harness = configured()
    harness.text("This sentence is synthesised while it is played, and it is long.\n")
    (request,) = harness.submitted
    harness.audio(request, slice(0, 10))  # 0.8 s
    harness.now_s = 0.8
    message = cancelled(harness)
    assert message.text_spoken == "This"
    assert message.sentence_index == 0


def test_markup_removed_by_filters_belongs_to_the_text() -> None:
    text = "This is **very** important. And [a link](https://example.com/x) too."
    harness = completed(text, text_filters=["markdown", "urls"])
    total_ms = harness.playout_end_s * 1000
    for part in range(11):
        message = cancelled(completed(text, text_filters=["markdown", "urls"]), playback_offset_ms=total_ms * part / 10)
        assert message.text_spoken + message.text_remaining == text
    assert cancelled(harness, playback_offset_ms=total_ms).text_remaining == ""


def test_text_without_audio_remains() -> None:
    harness = configured()
    harness.text("First sentence. Second sentence. Third one, not yet ended")
    harness.complete(harness.submitted[0])
    harness.now_s = 100.0
    message = cancelled(harness)
    assert message.text_spoken == "First sentence."
    assert message.text_remaining == " Second sentence. Third one, not yet ended"


def test_chinese_text_is_divided_between_characters() -> None:
    text = "今天天气很好我们去公园玩吧。"
    total_ms = len(tone.render(SynthesisRequest("a", "a", text, "tone_low"))) / 24
    message = cancelled(completed(text), playback_offset_ms=total_ms / 2)
    assert message.text_spoken == text[: len(text) // 2]


def test_the_utterance_at_the_playback_position_is_reported_with_the_text_after_it() -> None:
    harness = configured()
    for text in ("The first one. ", "The second one. ", "The third one. "):
        harness.text(text)
        harness.client(DONE)
    harness.complete_all()
    first_ms, second_ms = (len(audio) / 48 for audio in harness.of(bytes)[:2])
    message = cancelled(harness, playback_offset_ms=first_ms + second_ms * 0.7)
    assert (message.utterance_index, message.sentence_index) == (1, 0)
    assert message.text_spoken == "The second"
    assert message.text_remaining.endswith("The third one. ")


def test_a_pause_moves_the_position_and_the_times_of_words() -> None:
    harness = configured(word_timestamps=True)
    harness.text("One. [pause:1s] Two three.")
    harness.client(DONE)
    first, second = harness.submitted
    harness.complete(first)
    words = (Word(0, 3, 0.0, 0.2), Word(4, 10, 0.2, 0.6))
    harness.execute(harness.session.on_engine(WordsReady(second.request_id, words), 0.0))
    harness.complete(second)
    (timestamps,) = harness.of(AudioTimestamps)[1:]
    assert [(word.start_ms, word.end_ms) for word in timestamps.words] == [(1000.0, 1200.0), (1200.0, 1600.0)]
    first_ms = harness.of(AudioDone)[0].duration_ms
    message = cancelled(harness, playback_offset_ms=first_ms + 900)
    assert message.text_spoken == "One."
