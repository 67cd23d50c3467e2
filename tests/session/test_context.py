"""What is kept of what was said: long enough to tell what was heard, and no longer."""

import pytest

from realtime_tts.frontends.native.messages import AudioCancelled
from tests.session.harness import DONE, Harness, configured


def say(harness: Harness, text: str) -> float:
    """Speaks it to the end, and gives when it will have been heard."""
    harness.text(text)
    harness.client(DONE)
    harness.speak(harness.submitted[-1])
    return harness.playout_end_s


def cancel(harness: Harness, offset_ms: float | None = None) -> AudioCancelled:
    harness.client({"type": "input.cancel", "playback_offset_ms": offset_ms})
    message = harness.of(AudioCancelled)[-1]
    assert isinstance(message, AudioCancelled)
    return message


def test_the_playhead_counts_from_the_beginning_however_much_has_been_forgotten() -> None:
    harness = configured()
    total_s = 0.0
    for turn in range(40):
        harness.now_s = turn * 60.0
        say(harness, "Hello there.")
        total_s += len(harness.of(bytes)[-1]) / 48_000
    last_s = len(harness.of(bytes)[-1]) / 48_000
    message = cancel(harness, (total_s - last_s) * 1000)
    assert message.utterance_index == 39
    assert message.text_remaining == "Hello there."
    assert message.audio_sent_ms == pytest.approx(total_s * 1000, rel=1e-6)


def test_after_a_barge_in_it_counts_anew() -> None:
    harness = configured()
    say(harness, "Hello there.")
    cancel(harness)
    say(harness, "And now this.")
    assert cancel(harness, 0).text_remaining == "And now this."


def test_long_after_all_was_heard_nothing_remains() -> None:
    harness = configured()
    end_s = say(harness, "Hello there.")
    harness.now_s = end_s + 100
    message = cancel(harness)
    assert (message.text_spoken, message.text_remaining) == ("Hello there.", "")
    message = cancel(harness)
    assert (message.text_spoken, message.text_remaining) == ("", "")


def test_a_report_beyond_what_was_sent_is_taken_as_its_end() -> None:
    harness = configured()
    say(harness, "Hello there.")
    message = cancel(harness, 1e9)
    assert message.audio_played_ms == message.audio_sent_ms
    assert message.text_remaining == ""
