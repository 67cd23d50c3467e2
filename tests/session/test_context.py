"""Contexts: barge-in, what is kept for it, several contexts side by side, limits."""

import json

import pytest

from realtime_tts.errors import Overloaded
from realtime_tts.frontends.native.frame_header import HEADER_BYTES, FrameHeader
from realtime_tts.frontends.native.messages import AudioCancelled, AudioDone, AudioStart, ServerError, SessionDone
from realtime_tts.session.events import Closed
from realtime_tts.session.limits import SessionLimits
from tests.session.harness import CANCEL, DONE, Harness, configured, in_context


def speak(harness: Harness, text: str) -> float:
    """Sends an utterance of one sentence and its audio; returns when its playback ends."""
    harness.text(text)
    harness.client(DONE)
    harness.complete(harness.submitted[-1])
    return harness.playout_end_s


def cancel(harness: Harness, offset_ms: float | None = None) -> AudioCancelled:
    harness.client({**CANCEL, "playback_offset_ms": offset_ms})
    message = harness.of(AudioCancelled)[-1]
    assert isinstance(message, AudioCancelled)
    return message


# -- Barge-in ----------------------------------------------------------------------------------------------------------


def test_a_cancel_withdraws_what_waits_and_what_is_at_the_engine() -> None:
    harness = configured()
    harness.text("One is here. Two is here. Three is here.\n")
    first, second = harness.submitted
    harness.audio(first, slice(0, 3))
    harness.client(CANCEL)
    assert harness.cancelled == [first.request_id, second.request_id]
    kinds = [type(each) for each in harness.sent]
    assert kinds == [AudioStart, bytes, AudioDone, AudioCancelled, SessionDone]
    done, ended = harness.of(AudioDone)[0], harness.of(SessionDone)[0]
    assert (done.reason, done.error, done.total_bytes) == ("cancelled", False, 3 * 1920 * 2)
    assert (ended.reason, ended.total_sentences) == ("cancelled", 1)
    harness.complete_all()
    assert len(harness.sent) == 5, "later engine events of cancelled requests have no effect"


def test_an_utterance_after_a_cancel_does_not_wait_for_the_cancelled_audio() -> None:
    harness = configured()
    harness.text("One is here, and it is quite long, so that much of it is not yet played.\n")
    harness.complete(harness.submitted[0])
    harness.now_s = 0.5
    assert harness.playout_end_s > 2
    harness.client(CANCEL)
    assert harness.playout_end_s == pytest.approx(0.5), "the client has discarded its buffer"
    harness.text("Yes?\n")
    harness.client(DONE)
    harness.now_s = 0.6
    harness.complete(harness.submitted[1])
    done = harness.of(AudioDone)[-1]
    assert done.metrics.ttfp_ms == pytest.approx(100)
    assert done.metrics.max_underrun_ms == 0.0
    assert harness.of(SessionDone)[-1].utterance_index == 1


def test_a_cancel_withdraws_audio_that_a_slow_client_has_not_read() -> None:
    harness = configured()
    harness.client_reads = False
    harness.text("One is here. Two is here.\n")
    for request in list(harness.submitted):
        harness.complete(request)
    harness.client(DONE, CANCEL)
    harness.client_reads = True
    harness.send()
    assert [type(each) for each in harness.sent] == [AudioCancelled, SessionDone]
    message = harness.sent[0]
    assert (message.sentence_index, message.text_spoken, message.audio_sent_ms) == (None, "", 0.0)
    assert message.text_remaining == "One is here. Two is here.\n"


def test_a_cancel_with_nothing_to_cancel_is_answered() -> None:
    harness = configured()
    harness.client(CANCEL, in_context("unknown", CANCEL))
    first, second = harness.of(AudioCancelled)
    assert (first.context_id, second.context_id) == (None, "unknown")
    assert (first.text_spoken, first.text_remaining) == ("", "")


def test_a_cancel_after_the_last_audio_was_sent_still_reports_the_playback_position() -> None:
    harness = configured()
    harness.text("One is here. Two is here.")
    harness.client(DONE)
    harness.complete_all()
    assert harness.of(SessionDone)
    assert cancel(harness, 0).text_remaining == "One is here. Two is here."
    assert len(harness.of(SessionDone)) == 1, "the utterance had already ended"


def test_session_created_precedes_the_answer_to_a_first_cancel() -> None:
    harness = Harness()
    harness.client(CANCEL)
    assert [each.__struct_config__.tag for each in harness.sent] == ["session.created", "audio.cancelled"]


def test_an_invalid_playback_offset_is_rejected() -> None:
    for offset_ms in (-1, "x", 1e400):
        harness = configured()
        harness.frame(json.dumps({**CANCEL, "playback_offset_ms": offset_ms}))
        assert [error.code for error in harness.of(ServerError)] == ["invalid_message"], offset_ms
        assert not harness.of(AudioCancelled), offset_ms


def test_the_playback_position_includes_forgotten_utterances() -> None:
    harness = configured()
    total_s = 0.0
    for number in range(40):
        harness.now_s = number * 60.0
        speak(harness, "Hello there.")
        total_s += len(harness.of(bytes)[-1]) / 48_000
    last_s = len(harness.of(bytes)[-1]) / 48_000
    message = cancel(harness, (total_s - last_s) * 1000)
    assert message.utterance_index == 39
    assert message.text_remaining == "Hello there."
    assert message.audio_sent_ms == pytest.approx(total_s * 1000, rel=1e-6)


def test_the_playback_position_restarts_at_zero_after_a_cancel() -> None:
    harness = configured()
    speak(harness, "Hello there.")
    cancel(harness)
    speak(harness, "And now this.")
    assert cancel(harness, 0).text_remaining == "And now this."


def test_nothing_remains_after_the_end_of_playback() -> None:
    harness = configured()
    end_s = speak(harness, "Hello there.")
    harness.now_s = end_s + 100
    message = cancel(harness)
    assert (message.text_spoken, message.text_remaining) == ("Hello there.", "")
    message = cancel(harness)
    assert (message.text_spoken, message.text_remaining) == ("", "")


def test_a_playback_offset_beyond_the_sent_audio_is_clamped_to_it() -> None:
    harness = configured()
    speak(harness, "Hello there.")
    message = cancel(harness, 1e9)
    assert message.audio_played_ms == message.audio_sent_ms
    assert message.text_remaining == ""


# -- Several contexts --------------------------------------------------------------------------------------------------


def test_contexts_are_played_one_after_the_other_with_labelled_frames() -> None:
    harness = configured()
    harness.text("Context a speaks.\n", context_id="a")
    harness.text("Context b waits.\n", context_id="b")
    assert [request.text for request in harness.submitted] == ["Context a speaks."], "more text of a may follow"
    harness.complete(harness.submitted[0])
    harness.client(in_context("a", DONE))
    harness.client(in_context("b", DONE))
    harness.complete(harness.submitted[1])
    starts = harness.of(AudioStart)
    assert [(start.context_id, start.sentence_index) for start in starts] == [("a", 0), ("b", 0)]
    assert starts[0].frame_header, "two contexts were open"
    assert FrameHeader.unpack(harness.of(bytes)[0]).context_number == starts[0].context_number != 0
    assert [done.context_id for done in harness.of(SessionDone)] == ["a", "b"]


def test_a_single_context_has_frames_without_headers_unless_requested() -> None:
    bare, framed = configured(), configured(frame_header=True)
    for harness in (bare, framed):
        harness.text("Hello there.")
        harness.client(DONE)
        harness.complete_all()
    bare_audio = b"".join(bare.of(bytes))
    frames = framed.of(bytes)
    assert b"".join(frame[HEADER_BYTES:] for frame in frames) == bare_audio
    headers = [FrameHeader.unpack(frame) for frame in frames]
    assert [header.sequence for header in headers] == list(range(len(frames)))
    assert [header.last for header in headers] == [False] * (len(frames) - 1) + [True]
    assert headers[-1].sample_offset * 2 == len(bare_audio)
    assert framed.of(AudioDone)[0].total_bytes == len(bare_audio), "headers are not counted"
    assert (framed.of(AudioStart)[0].frame_header, bare.of(AudioStart)[0].frame_header) == (True, False)


def test_with_frame_headers_contexts_are_played_side_by_side_with_separate_clocks() -> None:
    harness = configured(frame_header=True)
    harness.text("Context a speaks.\n", context_id="a")
    harness.text("Context b speaks too.\n", context_id="b")
    a, b = harness.submitted
    assert a.stream_id != b.stream_id
    harness.audio(b, slice(0, 2))
    harness.audio(a, slice(0, 2))
    harness.finish(b)
    assert [start.context_id for start in harness.of(AudioStart)] == ["b", "a"]


def test_cancelling_one_context_does_not_affect_the_others() -> None:
    harness = configured()
    harness.text("Context a speaks.\n", context_id="a")
    harness.text("Context b waits.\n", context_id="b")
    (a,) = harness.submitted
    harness.audio(a, slice(0, 2))
    harness.client(in_context("a", CANCEL), in_context("b", DONE))
    assert harness.cancelled == [a.request_id]
    harness.audio(a, slice(2, None))
    harness.complete(harness.submitted[1])
    after = harness.sent[harness.sent.index(harness.of(AudioCancelled)[0]) :]
    assert [type(each) for each in after] == [AudioCancelled, SessionDone, AudioStart, bytes, AudioDone, SessionDone]
    assert [each.context_id for each in after if not isinstance(each, bytes)] == ["a", "a", "b", "b", "b"]


def test_a_new_context_cancels_the_others_if_configured() -> None:
    harness = configured(on_new_context="interrupt")
    harness.text("Context a speaks.\n", context_id="a")
    harness.audio(harness.submitted[0], slice(0, 2))
    harness.text("Context b now.\n", context_id="b")
    assert [message.context_id for message in harness.of(AudioCancelled)] == ["a"]
    assert harness.cancelled == [harness.submitted[0].request_id]
    harness.text("And more of b. ", context_id="b")
    assert len(harness.of(AudioCancelled)) == 1


def test_open_contexts_are_limited_and_a_cancelled_one_no_longer_counts() -> None:
    harness = configured(SessionLimits(max_contexts=2))
    for name in ("a", "b", "c"):
        harness.text("Hello there. ", context_id=name)
    (error,) = harness.of(ServerError)
    assert (error.code, error.context_id, error.fatal) == ("too_many_contexts", "c", False)
    for number in range(100):
        harness.client(in_context("b", CANCEL))
        harness.text("Hello again. ", context_id=f"context {number}")
        harness.client(in_context(f"context {number}", CANCEL))
        harness.text("Back. ", context_id="b")
    assert len(harness.of(ServerError)) == 1


def test_an_idle_context_ends_so_that_the_next_one_is_played() -> None:
    harness = configured(SessionLimits(context_idle_s=20.0))
    harness.text("Context a speaks. And then ", context_id="a")
    harness.text("Context b waits.\n", context_id="b")
    harness.client(in_context("b", DONE))
    harness.complete_all()
    assert [done.context_id for done in harness.of(SessionDone)] == []
    harness.advance_to(20.0)
    harness.complete_all()
    assert [done.context_id for done in harness.of(SessionDone)] == ["a", "b"]


def test_a_long_session_frees_the_streams_of_finished_contexts() -> None:
    harness = configured(frame_header=True)
    for number in range(300):
        harness.text("Hello there.", context_id=f"context {number}")
        harness.client(in_context(f"context {number}", DONE))
        harness.complete(harness.submitted[-1])
        harness.now_s += 30.0
        harness.execute(harness.session.on_time(harness.now_s))
    assert len(harness.ended_streams) >= 298
    assert len(harness.of(SessionDone)) == 300


def test_an_invalid_context_id_is_rejected() -> None:
    for name in ("", "x" * 129):
        harness = configured()
        harness.text("Hello.", context_id=name)
        assert [error.code for error in harness.of(ServerError)] == ["invalid_message"], name


def test_a_rejected_context_does_not_end_a_session_in_which_another_speaks() -> None:
    harness = configured(frame_header=True)
    harness.text("Context a speaks.\n", context_id="a")
    harness.audio(harness.submitted[0], slice(0, 2))
    harness.text("Context b is one too many.\n", context_id="b")
    harness.finish(harness.submitted[1], Overloaded("full", retry_after_s=1.0))
    assert not harness.of(Closed)
    (error,) = harness.of(ServerError)
    assert (error.code, error.context_id) == ("overloaded", "b")
