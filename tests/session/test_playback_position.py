"""From a playhead to the client's own text: whole words, none twice, none lost."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import SynthesisRequest, Word, WordsReady
from realtime_tts.engine.models import tone
from realtime_tts.frontends.native.messages import AudioCancelled
from tests.session.harness import DONE, Harness, configured

TEXT = "One two three. Four five six seven. And the last one."


def cancelled(harness: Harness, **fields: Any) -> AudioCancelled:
    harness.client({"type": "input.cancel", **fields})
    message = harness.of(AudioCancelled)[-1]
    assert isinstance(message, AudioCancelled)
    return message


def spoken_to_the_end(text: str = TEXT, **config: Any) -> Harness:
    harness = configured(**config)
    harness.text(text)
    harness.client(DONE)
    harness.speak_all()
    return harness


@given(st.floats(0, 6000))
@settings(deadline=None, max_examples=60)
def test_what_was_heard_and_what_remains_are_the_text(offset_ms: float) -> None:
    harness = spoken_to_the_end()
    message = cancelled(harness, playback_offset_ms=offset_ms)
    assert message.text_spoken + message.text_remaining == TEXT
    assert message.text_spoken == "" or message.text_spoken[-1] not in " " or message.text_remaining == ""
    assert message.source == "reported"
    assert message.audio_played_ms == pytest.approx(min(offset_ms, message.audio_sent_ms), abs=0.06)


def test_a_later_playhead_never_has_heard_less() -> None:
    spoken = [len(cancelled(spoken_to_the_end(), playback_offset_ms=at).text_spoken) for at in range(0, 5200, 100)]
    assert spoken == sorted(spoken)
    assert spoken[0] == 0
    assert spoken[-1] == len(TEXT)
    assert len(set(spoken)) > 8, "it moves word by word"


def test_only_whole_words_have_been_heard() -> None:
    for offset_ms in range(0, 4000, 37):
        spoken = cancelled(spoken_to_the_end(), playback_offset_ms=offset_ms).text_spoken
        assert spoken == TEXT[: len(spoken)]
        assert len(spoken) == len(TEXT) or not (spoken and TEXT[len(spoken)].isalnum() and spoken[-1].isalnum())


def test_without_a_report_the_playhead_is_reckoned_from_what_was_sent_and_when() -> None:
    harness = spoken_to_the_end()
    total_ms = harness.playout_end_s * 1000
    harness.now_s = total_ms / 2000
    message = cancelled(harness)
    assert message.source == "estimated"
    assert message.audio_sent_ms == pytest.approx(total_ms)
    assert message.audio_played_ms == pytest.approx(total_ms / 2)
    assert message.text_spoken.startswith("One two three.")
    assert message.text_remaining.endswith("last one.")


def test_reports_correct_the_reckoning() -> None:
    harness = spoken_to_the_end()
    harness.now_s = 2.0
    harness.client({"type": "playback.report", "played_ms": 1400})  # 600 ms lie in its jitter buffer
    harness.now_s = 2.5
    assert cancelled(harness).audio_played_ms == pytest.approx(1900)


def test_word_times_of_the_model_are_used_where_it_gives_them() -> None:
    harness = configured()
    harness.text("Slowly now.\n")
    (request,) = harness.submitted
    words = (Word(0, 6, 0.0, 0.7), Word(7, 11, 0.7, 0.8))
    harness.carry_out(harness.session.on_engine(WordsReady(request.request_id, words), 0.0))
    harness.speak(request)
    assert cancelled(harness, playback_offset_ms=600).text_spoken == "Slowly"


def test_of_a_sentence_not_wholly_made_the_length_is_reckoned() -> None:
    harness = configured()
    harness.text("This sentence is being made while it is heard, and it is long.\n")
    (request,) = harness.submitted
    harness.audio(request, slice(0, 10))  # 0.8 s
    harness.now_s = 0.8
    message = cancelled(harness)
    assert message.text_spoken == "This"
    assert message.sentence_index == 0


def test_what_was_cleaned_away_belongs_to_the_text_all_the_same() -> None:
    text = "This is **very** important. And [a link](https://example.com/x) too."
    harness = spoken_to_the_end(text, text_filters=["markdown", "urls"])
    total_ms = harness.playout_end_s * 1000
    for part in range(11):
        message = cancelled(
            spoken_to_the_end(text, text_filters=["markdown", "urls"]), playback_offset_ms=total_ms * part / 10
        )
        assert message.text_spoken + message.text_remaining == text
    assert cancelled(harness, playback_offset_ms=total_ms).text_remaining == ""


def test_text_that_never_became_sound_remains() -> None:
    harness = configured()
    harness.text("First sentence. Second sentence. Third one, not yet ended")
    harness.speak(harness.submitted[0])
    harness.now_s = 100.0
    message = cancelled(harness)
    assert message.text_spoken == "First sentence."
    assert message.text_remaining == " Second sentence. Third one, not yet ended"


def test_chinese_has_no_spaces_and_is_cut_between_characters() -> None:
    text = "今天天气很好我们去公园玩吧。"
    total_ms = len(tone.render(SynthesisRequest("a", "a", text, "tone_low"))) / 24
    message = cancelled(spoken_to_the_end(text), playback_offset_ms=total_ms / 2)
    assert message.text_spoken == text[: len(text) // 2]


def test_the_utterance_in_which_the_playhead_stands_is_told_with_all_behind_it() -> None:
    harness = configured()
    for text in ("The first one. ", "The second one. ", "The third one. "):
        harness.text(text)
        harness.client(DONE)
    harness.speak_all()
    first_ms, second_ms = (len(sound) / 48 for sound in harness.of(bytes)[:2])
    message = cancelled(harness, playback_offset_ms=first_ms + second_ms * 0.7)
    assert (message.utterance_index, message.sentence_index) == (1, 0)
    assert message.text_spoken == "The second"
    assert message.text_remaining.endswith("The third one. ")
