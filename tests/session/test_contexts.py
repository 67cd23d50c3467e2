"""Contexts, barge-in, flush: what a backend with several threads of talk relies on."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from realtime_tts.engine.api import Word, WordsReady
from realtime_tts.errors import Overloaded, RealtimeTTSError
from realtime_tts.frontends.native.frame_header import HEADER_BYTES, FrameHeader
from realtime_tts.frontends.native.messages import (
    AudioCancelled,
    AudioDone,
    AudioStart,
    AudioTimestamps,
    ServerError,
    SessionDone,
    SessionExpiring,
)
from realtime_tts.session.events import Closed
from realtime_tts.session.limits import SessionLimits
from tests.session.harness import DONE, INFO, STREAM, Harness, configured

CANCEL = {"type": "input.cancel"}
FLUSH = {"type": "input.flush"}
AHEAD = dataclasses.replace(INFO, reads_ahead=True)


def of_context(name: str | None, message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "context_id": name}


# -- Flush and delay ---------------------------------------------------------------------------------------------------


def test_flush_speaks_what_is_buffered_and_the_utterance_stays_open() -> None:
    harness = configured()
    harness.text("Wait, what")
    assert harness.submitted == []
    harness.client(FLUSH)
    harness.text(" is that? Oh.")
    harness.client(DONE)
    harness.speak_all()
    starts = harness.of(AudioStart)
    assert [(s.sentence_index, s.sentence_text, s.text_span) for s in starts] == [
        (0, "Wait, what", (0, 10)),
        (1, "is that?", (11, 19)),
        (2, "Oh.", (20, 23)),
    ]
    assert [done.total_sentences for done in harness.of(SessionDone)] == [3]


def test_flush_with_nothing_buffered_changes_nothing() -> None:
    harness = configured()
    harness.client(FLUSH, of_context("nobody", FLUSH))
    assert harness.sent == []


def test_text_that_waits_with_no_more_coming_is_spoken() -> None:
    harness = configured()
    harness.text("No end of sentence")
    harness.at(2.9)
    harness.text(" in sight")
    harness.at(5.8)
    assert harness.submitted == []
    harness.at(6.0)
    assert [request.text for request in harness.submitted] == ["No end of sentence in sight"]
    harness.at(500.0)
    assert len(harness.submitted) == 1


def test_zero_delay_waits_for_ever() -> None:
    harness = configured(max_buffer_delay_ms=0)
    harness.text("No end of sentence")
    harness.at(500.0)
    assert harness.submitted == []


def test_a_long_message_is_taken_in_by_and_by_and_spoken_as_if_at_once() -> None:
    text = "A. B. C? " * 3000
    harness, slow = configured(), configured()
    for each in (harness, slow):
        each.reads = False
    harness.text(text)
    slow.frame(json.dumps({"type": "input.text", "text": text}))
    backlogged = slow.session.has_backlog
    slow.client(DONE)
    harness.client(DONE)
    assert (backlogged, slow.session.has_backlog) == (True, False), "at once it would have held up all other sessions"
    (one,), (other,) = (each.session._contexts.shared.utterances for each in (harness, slow))
    assert [each.sentence for each in one.sentences] == [each.sentence for each in other.sentences]
    assert one.total_sentences == 3000


# -- Barge-in ----------------------------------------------------------------------------------------------------------


def test_a_barge_in_takes_back_what_waits_and_what_is_with_the_engine() -> None:
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
    harness.speak_all()
    assert len(harness.sent) == 5, "late events of what was cancelled change nothing"


def test_the_next_utterance_after_a_barge_in_is_a_fresh_one() -> None:
    harness = configured()
    harness.text("One is here, and it is quite long, so that much of it is not yet heard.\n")
    harness.speak(harness.submitted[0])
    harness.now_s = 0.5
    assert harness.playout_end_s > 2
    harness.client(CANCEL)
    assert harness.playout_end_s == pytest.approx(0.5), "the listener has thrown its buffer away"
    harness.text("Yes?\n")
    harness.client(DONE)
    harness.now_s = 0.6
    harness.speak(harness.submitted[1])
    done = harness.of(AudioDone)[-1]
    assert done.metrics.ttfp_ms == pytest.approx(100)
    assert done.metrics.max_underrun_ms == 0.0
    assert harness.of(SessionDone)[-1].utterance_index == 1


def test_what_waits_for_a_slow_reader_is_taken_back_too() -> None:
    harness = configured()
    harness.reads = False
    harness.text("One is here. Two is here.\n")
    for request in list(harness.submitted):
        harness.speak(request)
    harness.client(DONE, CANCEL)
    harness.reads = True
    harness.send()
    assert [type(each) for each in harness.sent] == [AudioCancelled, SessionDone]
    message = harness.sent[0]
    assert (message.sentence_index, message.text_spoken, message.audio_sent_ms) == (None, "", 0.0)
    assert message.text_remaining == "One is here. Two is here.\n"


def test_a_cancel_with_nothing_to_cancel_is_answered() -> None:
    harness = configured()
    harness.client(CANCEL, of_context("nobody", CANCEL))
    first, second = harness.of(AudioCancelled)
    assert (first.context_id, second.context_id) == (None, "nobody")
    assert (first.text_spoken, first.text_remaining) == ("", "")


def test_a_cancel_after_all_was_sent_still_tells_what_was_heard() -> None:
    harness = configured()
    harness.text("One is here. Two is here.")
    harness.client(DONE)
    harness.speak_all()
    assert harness.of(SessionDone)
    harness.client({**CANCEL, "playback_offset_ms": 0})
    assert harness.of(AudioCancelled)[0].text_remaining == "One is here. Two is here."
    assert len(harness.of(SessionDone)) == 1, "it had its end already"


def test_a_cancel_before_anything_introduces_the_server_first() -> None:
    harness = Harness()
    harness.client(CANCEL)
    assert [each.__struct_config__.tag for each in harness.sent] == ["session.created", "audio.cancelled"]


@pytest.mark.parametrize("offset_ms", [-1, "x", 1e400])
def test_a_bad_playhead_is_refused(offset_ms: object) -> None:
    harness = configured()
    harness.frame(json.dumps({**CANCEL, "playback_offset_ms": offset_ms}))
    assert [error.code for error in harness.of(ServerError)] == ["invalid_message"]
    assert not harness.of(AudioCancelled)


# -- Contexts ----------------------------------------------------------------------------------------------------------


def test_contexts_are_heard_one_after_the_other_with_labelled_frames() -> None:
    harness = configured()
    harness.text("Context a speaks.\n", context_id="a")
    harness.text("Context b waits.\n", context_id="b")
    assert [request.text for request in harness.submitted] == ["Context a speaks."], "more of a may still come"
    harness.speak(harness.submitted[0])
    harness.client(of_context("a", DONE))
    harness.client(of_context("b", DONE))
    harness.speak(harness.submitted[1])
    starts = harness.of(AudioStart)
    assert [(start.context_id, start.sentence_index) for start in starts] == [("a", 0), ("b", 0)]
    assert starts[0].frame_header, "two contexts were open"
    assert FrameHeader.unpack(harness.of(bytes)[0]).context_number == starts[0].context_number != 0
    assert [done.context_id for done in harness.of(SessionDone)] == ["a", "b"]


def test_one_context_alone_has_bare_frames_unless_headers_are_asked_for() -> None:
    bare, framed = configured(), configured(frame_header=True)
    for harness in (bare, framed):
        harness.text("Hello there.")
        harness.client(DONE)
        harness.speak_all()
    bare_audio = b"".join(bare.of(bytes))
    frames = framed.of(bytes)
    assert b"".join(frame[HEADER_BYTES:] for frame in frames) == bare_audio
    headers = [FrameHeader.unpack(frame) for frame in frames]
    assert [header.sequence for header in headers] == list(range(len(frames)))
    assert [header.last for header in headers] == [False] * (len(frames) - 1) + [True]
    assert headers[-1].sample_offset * 2 == len(bare_audio)
    assert framed.of(AudioDone)[0].total_bytes == len(bare_audio), "headers are not counted"
    assert (framed.of(AudioStart)[0].frame_header, bare.of(AudioStart)[0].frame_header) == (True, False)


def test_with_headers_contexts_are_heard_side_by_side_each_on_its_own_clock() -> None:
    harness = configured(frame_header=True)
    harness.text("Context a speaks.\n", context_id="a")
    harness.text("Context b speaks too.\n", context_id="b")
    a, b = harness.submitted
    assert a.stream_id != b.stream_id
    harness.audio(b, slice(0, 2))
    harness.audio(a, slice(0, 2))
    harness.finish(b)
    assert [start.context_id for start in harness.of(AudioStart)] == ["b", "a"]


def test_cancelling_one_context_leaves_the_others_alone() -> None:
    harness = configured()
    harness.text("Context a speaks.\n", context_id="a")
    harness.text("Context b waits.\n", context_id="b")
    (a,) = harness.submitted
    harness.audio(a, slice(0, 2))
    harness.client(of_context("a", CANCEL), of_context("b", DONE))
    assert harness.cancelled == [a.request_id]
    harness.audio(a, slice(2, None))
    harness.speak(harness.submitted[1])
    after = harness.sent[harness.sent.index(harness.of(AudioCancelled)[0]) :]
    assert [type(each) for each in after] == [AudioCancelled, SessionDone, AudioStart, bytes, AudioDone, SessionDone]
    assert [each.context_id for each in after if not isinstance(each, bytes)] == ["a", "a", "b", "b", "b"]


def test_a_new_context_interrupts_where_it_was_asked_to() -> None:
    harness = configured(on_new_context="interrupt")
    harness.text("Context a speaks.\n", context_id="a")
    harness.audio(harness.submitted[0], slice(0, 2))
    harness.text("Context b now.\n", context_id="b")
    assert [message.context_id for message in harness.of(AudioCancelled)] == ["a"]
    assert harness.cancelled == [harness.submitted[0].request_id]
    harness.text("And more of b. ", context_id="b")
    assert len(harness.of(AudioCancelled)) == 1


def test_contexts_are_bounded_and_a_cancelled_one_counts_no_more() -> None:
    harness = configured(SessionLimits(max_contexts=2))
    for name in ("a", "b", "c"):
        harness.text("Hello there. ", context_id=name)
    (error,) = harness.of(ServerError)
    assert (error.code, error.context_id, error.fatal) == ("too_many_contexts", "c", False)
    for turn in range(100):  # quick turns
        harness.client(of_context("b", CANCEL))
        harness.text("Hello again. ", context_id=f"turn {turn}")
        harness.client(of_context(f"turn {turn}", CANCEL))
        harness.text("Back. ", context_id="b")
    assert len(harness.of(ServerError)) == 1


def test_a_context_that_says_nothing_more_does_not_hold_up_the_others() -> None:
    harness = configured(SessionLimits(context_idle_s=20.0))
    harness.text("Context a speaks. And then ", context_id="a")
    harness.text("Context b waits.\n", context_id="b")
    harness.client(of_context("b", DONE))
    harness.speak_all()
    assert [done.context_id for done in harness.of(SessionDone)] == []
    harness.at(20.0)
    harness.speak_all()
    assert [done.context_id for done in harness.of(SessionDone)] == ["a", "b"]


def test_many_contexts_of_a_long_session_leave_nothing_behind() -> None:
    harness = configured(frame_header=True)
    for turn in range(300):
        harness.text("Hello there.", context_id=f"turn {turn}")
        harness.client(of_context(f"turn {turn}", DONE))
        harness.speak(harness.submitted[-1])
        harness.now_s += 30.0
        harness.carry_out(harness.session.on_time(harness.now_s))
    assert len(harness.ended_streams) >= 298
    assert len(harness.of(SessionDone)) == 300


@pytest.mark.parametrize("name", ["", "x" * 129])
def test_a_bad_context_name_is_refused(name: str) -> None:
    harness = configured()
    harness.text("Hello.", context_id=name)
    assert [error.code for error in harness.of(ServerError)] == ["invalid_message"]


def test_a_refused_context_never_ends_a_session_in_which_another_speaks() -> None:
    harness = configured(frame_header=True)
    harness.text("Context a speaks.\n", context_id="a")
    harness.audio(harness.submitted[0], slice(0, 2))
    harness.text("Context b is one too many.\n", context_id="b")
    harness.finish(harness.submitted[1], Overloaded("full", retry_after_s=1.0))
    assert not harness.of(Closed)
    (error,) = harness.of(ServerError)
    assert (error.code, error.context_id) == ("overloaded", "b")


# -- Words -------------------------------------------------------------------------------------------------------------


def test_word_times_are_sent_beside_the_sound_where_they_were_asked_for() -> None:
    harness = configured(word_timestamps=True)
    harness.text("Hello world.\n")
    (request,) = harness.submitted
    words = (Word(0, 5, 0.0, 0.4), Word(6, 12, 0.45, 0.9))
    harness.carry_out(harness.session.on_engine(WordsReady(request.request_id, words), 0.0))
    harness.speak(request)
    message = harness.of(AudioTimestamps)[-1]
    assert [(w.word, w.start_ms, w.end_ms, w.text_span) for w in message.words] == [
        ("Hello", 0.0, 400.0, (0, 5)),
        ("world.", 450.0, 900.0, (6, 12)),
    ]
    assert harness.sent.index(message) < harness.sent.index(harness.of(bytes)[0])


# -- Quota -------------------------------------------------------------------------------------------------------------


class _Spent:
    def charge(self, characters: int) -> None:
        if characters > 20:
            raise RealtimeTTSError("no more")


def test_text_beyond_the_quota_is_refused_and_none_of_it_taken() -> None:
    harness = Harness(quota=_Spent())
    harness.client(STREAM)
    harness.text("x" * 21, "Hello there. ")
    assert [error.message for error in harness.of(ServerError)] == ["no more"]
    assert [request.text for request in harness.submitted] == []
    harness.client(DONE)
    assert [request.text for request in harness.submitted] == ["Hello there."]


# -- Drain -------------------------------------------------------------------------------------------------------------


def test_a_session_that_is_told_to_end_finishes_what_has_begun() -> None:
    harness = configured()
    harness.text("One is here. And then ")
    harness.carry_out(harness.session.expire("drain", 30.0))
    assert harness.of(SessionExpiring)[0] == SessionExpiring(reason="drain", deadline_ms=30_000.0)
    harness.text("it ends.")
    harness.client(DONE)
    harness.text("But nothing new begins.")
    assert [error.code for error in harness.of(ServerError)] == ["session_ending"]
    harness.speak_all()
    assert [request.text for request in harness.submitted] == ["One is here.", "And then it ends."]
    assert harness.sent[-1] == Closed(1012, "server_stopping")
    assert [done.total_sentences for done in harness.of(SessionDone)] == [2]


def test_a_session_in_which_nothing_is_said_ends_at_once() -> None:
    harness = configured()
    harness.carry_out(harness.session.expire("drain", 30.0))
    assert [type(each) for each in harness.sent] == [SessionExpiring, Closed]


def test_the_idle_and_the_life_limit_are_told_before_they_come() -> None:
    harness = configured(SessionLimits(idle_s=600.0, session_s=3600.0))
    harness.at(570.0)
    assert harness.of(SessionExpiring) == [SessionExpiring(reason="idle", deadline_ms=30_000.0)]
    harness.client({"type": "session.keepalive"})
    for minute in range(10, 60):
        harness.at(minute * 60.0)
        harness.client({"type": "session.keepalive"})
    assert len(harness.of(SessionExpiring)) == 1
    harness.at(3575.0)
    assert harness.of(SessionExpiring)[-1].reason == "ttl"
    assert harness.sent[-1] == Closed(1001, "session_expired"), "nothing was being said"


# -- All of it ---------------------------------------------------------------------------------------------------------


class AnySession(RuleBasedStateMachine):
    """Any messages, in any order, against an engine that answers in any order: the promises hold throughout."""

    contexts = st.sampled_from([None, "a", "b"])

    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness(SessionLimits(max_contexts=2), info=AHEAD)
        self.progress: dict[str, int] = {}

    @rule(
        fields=st.fixed_dictionaries(
            {},
            optional={
                "stream_audio": st.booleans(),
                "response_format": st.sampled_from(["pcm", "wav"]),
                "frame_header": st.booleans(),
                "on_new_context": st.sampled_from(["queue", "interrupt"]),
                "max_buffer_delay_ms": st.sampled_from([0, 100, 3000]),
                "text_filters": st.sampled_from([[], ["markdown", "emoji"]]),
                "word_timestamps": st.booleans(),
                "split_granularity": st.sampled_from(["sentence", "clause", "none"]),
            },
        )
    )
    def configure(self, fields: dict[str, Any]) -> None:
        self.harness.client({"type": "session.config", **fields})

    @rule(context=contexts, text=st.text(alphabet="ab *.,!?\n😀\ud800", max_size=30))
    def text(self, context: str | None, text: str) -> None:
        self.harness.text(text, context_id=context)

    @rule(context=contexts, kind=st.sampled_from(["input.flush", "input.done", "input.cancel"]))
    def control(self, context: str | None, kind: str) -> None:
        self.harness.client({"type": kind, "context_id": context})

    @rule(context=contexts, played_ms=st.floats(0, 1e4), buffered_ms=st.none() | st.floats(0, 1e4))
    def report(self, context: str | None, played_ms: float, buffered_ms: float | None) -> None:
        message = {"type": "playback.report", "context_id": context, "played_ms": played_ms}
        self.harness.client({**message, "buffered_ms": buffered_ms})

    @rule(data=st.data(), frames=st.integers(1, 4))
    def engine(self, data: st.DataObject, frames: int) -> None:
        running = [r for r in self.harness.submitted if self.progress.get(r.request_id, 0) >= 0]
        if not running:
            return
        request = data.draw(st.sampled_from(running))
        done = self.progress.get(request.request_id, 0)
        if data.draw(st.booleans()):
            self.harness.audio(request, slice(done, done + frames))
            self.progress[request.request_id] = done + frames
        else:
            error = data.draw(st.sampled_from([None, None, RealtimeTTSError("broken")]))
            self.harness.finish(request, error)
            self.progress[request.request_id] = -1

    @rule(seconds=st.floats(0, 5))
    def time(self, seconds: float) -> None:
        self.harness.at(self.harness.now_s + seconds)

    @rule(reads=st.booleans())
    def read(self, reads: bool) -> None:
        self.harness.reads = reads
        self.harness.send()

    def every_sentence_is_begun_and_ended_in_order_and_nothing_follows_its_cancel(self) -> None:
        speaking: dict[str | None, AudioStart] = {}
        bytes_of: dict[str | None, int] = {}
        cancelled: dict[str | None, int] = {}
        by_number: dict[int, str | None] = {}
        last: str | None = None
        for each in self.harness.sent:
            match each:
                case AudioStart():
                    assert each.context_id not in speaking, "one sentence of a context at a time"
                    assert each.utterance_index > cancelled.get(each.context_id, -1), "nothing follows a cancel"
                    speaking[each.context_id], bytes_of[each.context_id] = each, 0
                    by_number[each.context_number] = last = each.context_id
                case bytes():
                    name = last
                    labelled = any(start.frame_header for start in speaking.values())
                    if labelled and (name not in speaking or speaking[name].frame_header):
                        name = by_number[FrameHeader.unpack(each).context_number]
                        each = each[HEADER_BYTES:]
                    assert name in speaking, "sound belongs to a sentence that has begun and not ended"
                    bytes_of[name] += len(each)
                case AudioDone():
                    start = speaking.pop(each.context_id)
                    assert (start.sentence_index, start.utterance_index) == (each.sentence_index, each.utterance_index)
                    assert each.total_bytes == bytes_of[each.context_id]
                case AudioCancelled():
                    assert each.context_id not in speaking, "a sentence that was cut has its audio.done"
                    if each.utterance_index is not None:
                        cancelled[each.context_id] = each.utterance_index

    @invariant()
    def nobody_else_is_harmed(self) -> None:
        assert not self.harness.session.closed

    def teardown(self) -> None:
        """Everything ends, and the engine keeps nothing."""
        self.harness.reads = True
        self.harness.send()
        self.harness.client({"type": "session.close"})
        for _ in range(1000):
            running = [r for r in self.harness.submitted if self.progress.get(r.request_id, 0) >= 0]
            if self.harness.session.closed or not running:
                break
            self.progress[running[0].request_id] = -1
            self.harness.finish(running[0])
        assert self.harness.sent[-1] == Closed(1000, "done")
        self.every_sentence_is_begun_and_ended_in_order_and_nothing_follows_its_cancel()
        starts, dones = len(self.harness.of(AudioStart)), len(self.harness.of(AudioDone))
        assert starts == dones
        ended = {done.utterance_index for done in self.harness.of(SessionDone)}
        assert ended == set(range(len(ended))), "every utterance has its end, once"
        assert len(ended) == len(self.harness.of(SessionDone))


TestAnySession = AnySession.TestCase
TestAnySession.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


# -- Reading ahead -----------------------------------------------------------------------------------------------------


def ahead(**config: Any) -> Harness:
    harness = Harness(info=AHEAD)
    harness.client({**STREAM, **config})
    harness.sent.clear()
    return harness


def test_a_sentence_is_with_a_model_that_reads_ahead_before_its_end_has_come() -> None:
    harness = ahead()
    harness.text("This sentence ")
    assert harness.submitted == [], "two words tell little"
    harness.text("is only")
    harness.text(" just")
    (request,) = harness.submitted
    assert (request.text, request.text_complete) == ("This sentence is", False)
    harness.text(" being written. And")
    harness.text(" more to come")
    assert [(each.text, each.complete) for each in harness.extended] == [
        (" only", False),
        (" just being", False),
        (" written.", True),
    ]
    assert request.text + "".join(each.text for each in harness.extended) == "This sentence is only just being written."


def test_only_the_sentence_that_would_be_next_is_read_ahead() -> None:
    harness = ahead()
    harness.text("One is here. Two is here. And then there is one that ")
    assert all(request.text_complete for request in harness.submitted)


@pytest.mark.parametrize(
    "config", [{"stream_audio": False}, {"split_granularity": "clause"}, {"pronunciations": {"a": "b"}}]
)
def test_where_the_end_may_change_the_beginning_nothing_is_read_ahead(config: dict[str, Any]) -> None:
    harness = ahead(**config)
    harness.text("This sentence is only just being ")
    assert harness.submitted == []


def test_a_sentence_that_was_read_ahead_is_told_as_any_other() -> None:
    harness = ahead(text_filters=["markdown"])
    harness.text("This **sentence** is only just ")
    (request,) = harness.submitted
    harness.audio(request, slice(0, 3))
    harness.text("being written. And more.")
    harness.client(DONE)
    harness.finish(request)
    harness.speak(harness.submitted[1])
    start, second = harness.of(AudioStart)
    assert (start.sentence_text, start.text_span[0]) == ("This sentence is only just", 0)
    assert (second.sentence_index, second.sentence_text) == (1, "And more.")
    assert harness.of(AudioDone)[0].sentence_text == "This sentence is only just being written."
    assert harness.of(AudioDone)[1].sentence_text is None, "it was told whole at its start"
    assert harness.of(SessionDone)[0].total_sentences == 2


def test_a_wait_for_the_rest_of_a_sentence_is_no_underrun() -> None:
    harness = ahead()
    harness.text("This sentence is only just ")
    (request,) = harness.submitted
    harness.audio(request, slice(0, 3))
    harness.now_s = 5.0
    harness.text("being written.")
    harness.client(DONE)
    harness.now_s = 5.1
    harness.audio(request, slice(3, 6))
    harness.finish(request)
    done = harness.of(AudioDone)[0].metrics
    assert (done.underrun_count, done.max_underrun_ms) == (0, 0.0)
    assert harness.of(SessionDone)[0].continuity.text_starvation_ms > 4000


def test_a_barge_in_takes_back_what_was_read_ahead() -> None:
    harness = ahead()
    harness.text("This sentence is only just ")
    harness.audio(harness.submitted[0], slice(0, 3))
    harness.client(CANCEL)
    assert harness.cancelled == [harness.submitted[0].request_id]
    harness.text("being written. A new beginning is this one ")
    assert harness.extended == []
    assert [request.text for request in harness.submitted[1:]] == ["being written.", "A new beginning is this one"]


# -- Models without voices ---------------------------------------------------------------------------------------------


def test_a_model_that_designs_its_voice_needs_none_and_one_that_clones_needs_a_recording() -> None:
    designer = dataclasses.replace(INFO, voices=(), default_voice=None, fields=frozenset({"instructions"}))
    harness = Harness(info=designer)
    harness.client({**STREAM, "instructions": "An old man, tired."})
    harness.text("Hello there.")
    harness.client(DONE)
    assert [(request.voice, request.instructions) for request in harness.submitted] == [("", "An old man, tired.")]
    cloner = dataclasses.replace(designer, fields=frozenset({"ref_audio"}))
    harness = Harness(info=cloner)
    harness.client(STREAM)
    harness.text("Hello there.")
    (error,) = harness.of(ServerError)
    assert (error.code, error.message.split(":")[0]) == ("invalid_config", "ref_audio")
