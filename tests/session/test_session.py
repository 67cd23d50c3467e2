"""Sessions: ordered audio, configuration, errors, closing, quotas, draining, and any messages in any order."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from realtime_tts.engine.models import tone
from realtime_tts.errors import NothingToSpeak, Overloaded, RealtimeTTSError, SynthesisFailed
from realtime_tts.frontends.native.frame_header import HEADER_BYTES, FrameHeader
from realtime_tts.frontends.native.messages import (
    AudioCancelled,
    AudioDone,
    AudioStart,
    ServerError,
    SessionCreated,
    SessionDone,
    SessionExpiring,
    SessionUpdated,
)
from realtime_tts.session.events import Closed
from realtime_tts.session.inputs import KeepAlive
from realtime_tts.session.limits import SessionLimits
from tests.session.harness import CANCEL, DONE, INFO, READING_AHEAD, STREAM, Harness, configured


@given(st.data())
@settings(max_examples=40)
def test_audio_is_sent_in_text_order_for_any_order_of_engine_events(data: st.DataObject) -> None:
    harness = configured(SessionLimits(sentences_ahead=3))
    texts = [f"This is sentence {i}." for i in range(data.draw(st.integers(1, 6)))]
    harness.text(" ".join(texts))
    harness.client(DONE)
    progress: dict[str, int] = {}
    while pending := [r for r in harness.submitted if progress.get(r.request_id, 0) is not None]:
        pending = [r for r in pending if progress.get(r.request_id, 0) >= 0]
        if not pending:
            break
        request = data.draw(st.sampled_from(pending))
        done, total = progress.get(request.request_id, 0), len(tone.codes(request))
        if done == total:
            harness.finish(request)
            progress[request.request_id] = -1
        else:
            count = data.draw(st.integers(1, total - done))
            harness.audio(request, slice(done, done + count))
            progress[request.request_id] = done + count
    starts, dones = harness.of(AudioStart), harness.of(AudioDone)
    assert [start.sentence_text for start in starts] == texts
    assert [start.sentence_index for start in starts] == list(range(len(texts)))
    assert [done.sentence_index for done in dones] == list(range(len(texts)))
    open_sentence: AudioStart | None = None
    total_bytes = 0
    for each in harness.sent:
        if isinstance(each, AudioStart):
            assert open_sentence is None
            open_sentence, total_bytes = each, 0
        elif isinstance(each, bytes):
            assert open_sentence is not None
            total_bytes += len(each)
        elif isinstance(each, AudioDone):
            assert open_sentence is not None
            assert each.sentence_index == open_sentence.sentence_index
            assert each.total_bytes == total_bytes == 2 * each.samples
            open_sentence = None
    assert isinstance(harness.sent[-1], SessionDone)
    assert harness.sent[-1].total_sentences == len(texts)


@given(st.text(alphabet="ab .!?\n😀", max_size=120), st.lists(st.integers(1, 8), max_size=40))
@settings(max_examples=40)
def test_any_slicing_of_a_text_gives_the_same_audio(text: str, cuts: list[int]) -> None:
    whole, sliced = configured(), configured()
    whole.text(text)
    position = 0
    for cut in cuts:
        sliced.text(text[position : position + cut])
        position += cut
    sliced.text(text[position:])
    for harness in (whole, sliced):
        harness.client(DONE)
        harness.complete_all()
    assert whole.of(AudioStart) == sliced.of(AudioStart)
    assert b"".join(whole.of(bytes)) == b"".join(sliced.of(bytes))
    assert whole.sent[-1].total_sentences == sliced.sent[-1].total_sentences


def test_session_created_is_sent_once_before_the_first_answer() -> None:
    harness = Harness()
    harness.client(STREAM, STREAM)
    assert [type(each) for each in harness.sent] == [SessionCreated, SessionUpdated, SessionUpdated]
    assert harness.sent[0].voices == INFO.voice_names
    assert harness.sent[1].config.response_format == "pcm"


def test_one_sentence_is_submitted_ahead_of_the_one_being_sent() -> None:
    harness = configured()
    harness.text("One is here. Two is here. Three is here. Four is here. ")
    assert len(harness.submitted) == 2
    harness.complete(harness.submitted[0])
    assert len(harness.submitted) == 3


def test_generation_stops_while_the_client_does_not_read() -> None:
    harness = configured()
    harness.client_reads = False
    harness.text("Hello there. " * 50)
    assert len(harness.submitted) == 2
    for request in list(harness.submitted):
        harness.complete(request)
    assert len(harness.submitted) == 2, "nothing was sent so far"
    harness.client_reads = True
    harness.send()
    assert len(harness.submitted) == 4


def test_a_config_during_an_utterance_applies_from_the_next_one() -> None:
    harness = configured(voice="tone_low")
    harness.text("First sentence here. Second ")
    harness.client({"type": "session.config", "voice": "tone_high", "sample_rate": 16_000})
    harness.text("sentence here.")
    harness.client(DONE)
    harness.text("Third sentence here.")
    harness.client(DONE)
    harness.complete_all()
    assert [request.voice for request in harness.submitted] == ["tone_low", "tone_low", "tone_high"]
    assert [start.sample_rate for start in harness.of(AudioStart)] == [24_000, 24_000, 16_000]


def test_an_invalid_config_is_rejected_as_a_whole_and_the_session_continues() -> None:
    harness = configured(voice="tone_high")
    harness.client({"type": "session.config", "speed": 2.0, "voice": "unknown"})
    assert [(e.code, e.fatal) for e in harness.of(ServerError)] == [("unknown_voice", False)]
    harness.text("Hello.")
    harness.client(DONE)
    assert (harness.submitted[0].voice, harness.submitted[0].speed) == ("tone_high", 1.0)


def test_utterances_are_numbered_and_may_be_sent_ahead() -> None:
    harness = configured()
    for text in ("One.", "", "Three."):
        if text:
            harness.text(text)
        harness.client(DONE)
    harness.complete_all()
    dones = harness.of(SessionDone)
    assert [(done.utterance_index, done.total_sentences) for done in dones] == [(0, 1), (1, 0), (2, 1)]
    assert [start.sentence_index for start in harness.of(AudioStart)] == [0, 0]


def test_a_whole_file_is_one_binary_message() -> None:
    harness = Harness()
    harness.text("Hello world. How are you?")
    harness.client(DONE)
    for request in list(harness.submitted):
        harness.audio(request, slice(0, 2))
        assert not harness.of(bytes) or request is not harness.submitted[0]
        harness.audio(request, slice(2, None))
        harness.finish(request)
    files = harness.of(bytes)
    assert len(files) == 2
    assert all(file[:4] == b"RIFF" for file in files)
    assert [len(file) for file in files] == [done.total_bytes for done in harness.of(AudioDone)]


def test_a_failed_sentence_reports_its_error_and_the_next_one_is_spoken() -> None:
    harness = configured()
    harness.text("One is bad. Two is good.")
    harness.client(DONE)
    bad, good = harness.submitted
    harness.audio(bad, slice(0, 3))
    harness.finish(bad, SynthesisFailed("it broke"))
    harness.complete(good)
    error = harness.of(ServerError)[0]
    assert (error.code, error.sentence_index, error.fatal) == ("synthesis_failed", 0, False)
    first, second = harness.of(AudioDone)
    assert (first.error, first.reason, first.total_bytes) == (True, "error", 3 * 1920 * 2)
    assert (second.error, second.reason) == (False, "complete")


def test_nothing_is_sent_of_a_whole_file_that_failed() -> None:
    harness = Harness()
    harness.text("One is bad.")
    harness.client(DONE)
    harness.audio(harness.submitted[0], slice(0, 3))
    harness.finish(harness.submitted[0], SynthesisFailed("it broke"))
    assert harness.of(bytes) == []
    assert harness.of(AudioDone)[0].total_bytes == 0


def test_a_session_that_is_overloaded_before_its_first_audio_is_closed() -> None:
    harness = configured()
    harness.text("One is here. Two is here. And so on ")
    harness.finish(harness.submitted[0], Overloaded("full"))
    assert harness.of(AudioStart) == []
    assert harness.sent[-1] == Closed(1013, "overloaded")
    assert harness.ended_streams == ["sid"]


def test_close_first_finishes_the_text_received_before() -> None:
    harness = configured()
    harness.text("Speak this")
    harness.client({"type": "session.close"})
    assert not harness.of(Closed)
    harness.complete_all()
    assert [type(each) for each in harness.sent[-2:]] == [SessionDone, Closed]
    assert harness.sent[-1].code == 1000
    assert harness.session.receive(KeepAlive(), 0.0) == []


def test_close_without_an_open_utterance_takes_effect_at_once() -> None:
    harness = configured()
    harness.client({"type": "session.close"})
    assert harness.sent == [Closed(1000, "done")]


def test_a_disconnect_ends_all_requests_and_nothing_follows() -> None:
    harness = configured()
    harness.text("One is here. Two is here. Three is here. ")
    harness.execute(harness.session.abandon())
    assert harness.ended_streams == ["sid"]
    before = len(harness.sent)
    harness.complete_all()
    harness.text("More. Still more. ")
    assert len(harness.sent) == before


def test_text_beyond_the_limit_of_pending_characters_is_rejected_as_a_whole() -> None:
    harness = configured(SessionLimits(max_pending_chars=100))
    harness.text("Hello there. ")
    harness.text("x" * 101)
    assert [error.code for error in harness.of(ServerError)] == ["text_too_long"]
    harness.client(DONE)
    harness.complete_all()
    assert [start.sentence_text for start in harness.of(AudioStart)] == ["Hello there."]


def test_idle_time_counts_from_the_last_input() -> None:
    harness = configured(SessionLimits(idle_s=10.0, session_s=100.0))
    assert harness.session.deadline_s == pytest.approx(10.0)
    harness.now_s = 8.0
    harness.client({"type": "session.keepalive"})
    assert harness.session.deadline_s == pytest.approx(18.0)
    harness.now_s = 95.0
    harness.client({"type": "session.keepalive"})
    assert harness.session.deadline_s == pytest.approx(70.0), "the warning before the maximum duration"


def test_a_rejected_utterance_that_was_sent_ahead_does_not_interrupt_the_current_one() -> None:
    harness = configured()
    for text in ("One is here.", "Two is here."):
        harness.text(text)
        harness.client(DONE)
    first, second = harness.submitted
    harness.audio(first, slice(0, 3))
    harness.finish(second, Overloaded("full", retry_after_s=2.0))
    assert not harness.of(Closed)
    harness.audio(first, slice(3, None))
    harness.finish(first)
    assert [done.error for done in harness.of(AudioDone)] == [False, True]
    (error,) = harness.of(ServerError)
    assert (error.code, error.fatal, error.retry_after_ms) == ("overloaded", False, 2000.0)
    assert [done.total_sentences for done in harness.of(SessionDone)] == [1, 1]
    assert [done.reason for done in harness.of(SessionDone)] == ["complete", "incomplete"]


def test_the_end_of_an_utterance_states_how_each_sentence_ended() -> None:
    harness = configured()
    harness.text("One is here. Two is here. Three is here. Four is here.")
    harness.client(DONE)
    for number, error in enumerate((None, SynthesisFailed("it broke"), None, NothingToSpeak("no words"))):
        harness.finish(harness.submitted[number], error)
    (done,) = harness.of(SessionDone)
    assert done.outcomes == ("complete", "error", "complete", "error")
    assert list(done.outcomes) == [each.reason for each in harness.of(AudioDone)]
    assert (done.total_sentences, done.reason) == (4, "incomplete")


def test_a_cancelled_utterance_states_how_those_of_its_sentences_ended_that_had_begun() -> None:
    harness = configured()
    harness.text("One is here. Two is here. Three is here.")
    harness.client(DONE)
    harness.complete(harness.submitted[0])
    harness.audio(harness.submitted[1], slice(0, 3))
    harness.client(CANCEL)
    (done,) = harness.of(SessionDone)
    assert (done.outcomes, done.total_sentences, done.reason) == (("complete", "cancelled"), 2, "cancelled")


# -- Quota -------------------------------------------------------------------------------------------------------------


class LimitedQuota:
    def charge(self, characters: int) -> None:
        if characters > 20:
            raise RealtimeTTSError("no more")


def test_text_beyond_the_quota_is_rejected_as_a_whole() -> None:
    harness = Harness(quota=LimitedQuota())
    harness.client(STREAM)
    harness.text("x" * 21, "Hello there. ")
    assert [error.message for error in harness.of(ServerError)] == ["no more"]
    assert [request.text for request in harness.submitted] == []
    harness.client(DONE)
    assert [request.text for request in harness.submitted] == ["Hello there."]


# -- Drain and lifetime ------------------------------------------------------------------------------------------------


def test_a_draining_session_finishes_open_utterances_and_begins_no_others() -> None:
    harness = configured()
    harness.text("One is here. And then ")
    harness.execute(harness.session.expire("drain", 30.0))
    assert harness.of(SessionExpiring)[0] == SessionExpiring(reason="drain", deadline_ms=30_000.0)
    harness.text("it ends.")
    harness.client(DONE)
    harness.text("One more.")
    assert [error.code for error in harness.of(ServerError)] == ["session_ending"]
    harness.complete_all()
    assert [request.text for request in harness.submitted] == ["One is here.", "And then it ends."]
    assert harness.sent[-1] == Closed(1012, "server_stopping")
    assert [done.total_sentences for done in harness.of(SessionDone)] == [2]


def test_draining_closes_an_idle_session_at_once() -> None:
    harness = configured()
    harness.execute(harness.session.expire("drain", 30.0))
    assert [type(each) for each in harness.sent] == [SessionExpiring, Closed]


def test_the_idle_limit_and_the_maximum_duration_are_announced_in_advance() -> None:
    harness = configured(SessionLimits(idle_s=600.0, session_s=3600.0))
    harness.advance_to(570.0)
    assert harness.of(SessionExpiring) == [SessionExpiring(reason="idle", deadline_ms=30_000.0)]
    harness.client({"type": "session.keepalive"})
    for minute in range(10, 60):
        harness.advance_to(minute * 60.0)
        harness.client({"type": "session.keepalive"})
    assert len(harness.of(SessionExpiring)) == 1
    harness.advance_to(3575.0)
    assert harness.of(SessionExpiring)[-1].reason == "ttl"
    assert harness.sent[-1] == Closed(1001, "session_expired"), "no utterance was open"


# -- Models without voices ---------------------------------------------------------------------------------------------


def test_a_model_without_voices_needs_a_recording_only_if_it_clones() -> None:
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


# -- Any messages in any order -----------------------------------------------------------------------------------------


class AnySession(RuleBasedStateMachine):
    """Any messages in any order, with an engine that answers in any order: the guarantees of protocol.md hold."""

    contexts = st.sampled_from([None, "a", "b"])

    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness(SessionLimits(max_contexts=2), info=READING_AHEAD)
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

    @rule(context=contexts, kind=st.sampled_from(["input.flush", "input.commit", "input.done", "input.cancel"]))
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
        self.harness.advance_to(self.harness.now_s + seconds)

    @rule(reads=st.booleans())
    def read(self, reads: bool) -> None:
        self.harness.client_reads = reads
        self.harness.send()

    def check_order_of_sent_messages(self) -> None:
        """Each sentence starts and ends once, in order, and no audio follows a cancel."""
        speaking: dict[str | None, AudioStart] = {}
        bytes_of: dict[str | None, int] = {}
        cancelled: dict[str | None, int] = {}
        by_number: dict[int, str | None] = {}
        last: str | None = None
        for each in self.harness.sent:
            match each:
                case AudioStart():
                    assert each.context_id not in speaking, "two sentences of one context at a time"
                    assert each.utterance_index > cancelled.get(each.context_id, -1), (
                        "an audio.start after the audio.cancelled of its utterance"
                    )
                    speaking[each.context_id], bytes_of[each.context_id] = each, 0
                    by_number[each.context_number] = last = each.context_id
                case bytes():
                    name = last
                    labelled = any(start.frame_header for start in speaking.values())
                    if labelled and (name not in speaking or speaking[name].frame_header):
                        name = by_number[FrameHeader.unpack(each).context_number]
                        each = each[HEADER_BYTES:]
                    assert name in speaking, "audio outside of a sentence"
                    bytes_of[name] += len(each)
                case AudioDone():
                    start = speaking.pop(each.context_id)
                    assert (start.sentence_index, start.utterance_index) == (each.sentence_index, each.utterance_index)
                    assert each.total_bytes == bytes_of[each.context_id]
                case AudioCancelled():
                    assert each.context_id not in speaking, (
                        "audio.cancelled before the audio.done of a started sentence"
                    )
                    if each.utterance_index is not None:
                        cancelled[each.context_id] = each.utterance_index

    @invariant()
    def session_stays_open(self) -> None:
        assert not self.harness.session.closed

    def teardown(self) -> None:
        """Closes the session: everything that has begun ends exactly once."""
        self.harness.client_reads = True
        self.harness.send()
        self.harness.client({"type": "session.close"})
        for _ in range(1000):
            running = [r for r in self.harness.submitted if self.progress.get(r.request_id, 0) >= 0]
            if self.harness.session.closed or not running:
                break
            self.progress[running[0].request_id] = -1
            self.harness.finish(running[0])
        assert self.harness.sent[-1] == Closed(1000, "done")
        self.check_order_of_sent_messages()
        starts, dones = len(self.harness.of(AudioStart)), len(self.harness.of(AudioDone))
        assert starts == dones
        ended = {done.utterance_index for done in self.harness.of(SessionDone)}
        assert ended == set(range(len(ended))), "an utterance without session.done"
        assert len(ended) == len(self.harness.of(SessionDone))


TestAnySession = AnySession.TestCase
TestAnySession.settings = settings(max_examples=25, stateful_step_count=40)
