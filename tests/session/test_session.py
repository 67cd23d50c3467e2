"""Text in, ordered audio out: whatever the order in which the engine answers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models import tone
from realtime_tts.errors import Overloaded, SynthesisFailed
from realtime_tts.frontends.native.messages import (
    AudioDone,
    AudioStart,
    ServerError,
    ServerWarning,
    SessionCreated,
    SessionDone,
    SessionUpdated,
)
from realtime_tts.session.events import Closed
from realtime_tts.session.inputs import KeepAlive
from realtime_tts.session.limits import SessionLimits
from tests.session.harness import DONE, INFO, STREAM, Harness, configured


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_audio_leaves_in_order_whatever_the_order_of_the_engine(data: st.DataObject) -> None:
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
@settings(deadline=None)
def test_any_slicing_of_a_text_is_spoken_alike(text: str, cuts: list[int]) -> None:
    whole, sliced = configured(), configured()
    whole.text(text)
    position = 0
    for cut in cuts:
        sliced.text(text[position : position + cut])
        position += cut
    sliced.text(text[position:])
    for harness in (whole, sliced):
        harness.client(DONE)
        harness.speak_all()
    assert whole.of(AudioStart) == sliced.of(AudioStart)
    assert b"".join(whole.of(bytes)) == b"".join(sliced.of(bytes))
    assert whole.sent[-1].total_sentences == sliced.sent[-1].total_sentences


def test_the_first_answer_introduces_the_server_once() -> None:
    harness = Harness()
    harness.client(STREAM, STREAM)
    assert [type(each) for each in harness.sent] == [SessionCreated, SessionUpdated, SessionUpdated]
    assert harness.sent[0].voices == INFO.voice_names
    assert harness.sent[1].config.response_format == "pcm"


def test_the_next_sentence_is_with_the_engine_while_one_speaks_and_no_more() -> None:
    harness = configured()
    harness.text("One is here. Two is here. Three is here. Four is here. ")
    assert len(harness.submitted) == 2
    harness.speak(harness.submitted[0])
    assert len(harness.submitted) == 3


def test_a_client_who_does_not_read_stops_its_own_generation() -> None:
    harness = configured()
    harness.reads = False
    harness.text("Hello there. " * 50)
    assert len(harness.submitted) == 2
    for request in list(harness.submitted):
        harness.speak(request)
    assert len(harness.submitted) == 2, "nothing was sent yet"
    harness.reads = True
    harness.send()
    assert len(harness.submitted) == 4


def test_a_config_in_mid_utterance_applies_from_the_next() -> None:
    harness = configured(voice="tone_low")
    harness.text("First sentence here. Second ")
    harness.client({"type": "session.config", "voice": "tone_high", "sample_rate": 16_000})
    harness.text("sentence here.")
    harness.client(DONE)
    harness.text("Third sentence here.")
    harness.client(DONE)
    harness.speak_all()
    assert [request.voice for request in harness.submitted] == ["tone_low", "tone_low", "tone_high"]
    assert [start.sample_rate for start in harness.of(AudioStart)] == [24_000, 24_000, 16_000]


def test_a_bad_config_changes_nothing_and_the_session_goes_on() -> None:
    harness = configured(voice="tone_high")
    harness.client({"type": "session.config", "speed": 2.0, "voice": "nobody"})
    assert [(e.code, e.fatal) for e in harness.of(ServerError)] == [("unknown_voice", False)]
    harness.text("Hello.")
    harness.client(DONE)
    assert (harness.submitted[0].voice, harness.submitted[0].speed) == ("tone_high", 1.0)


def test_utterances_are_counted_and_may_be_sent_ahead() -> None:
    harness = configured()
    for text in ("One.", "", "Three."):
        if text:
            harness.text(text)
        harness.client(DONE)
    harness.speak_all()
    dones = harness.of(SessionDone)
    assert [(done.utterance_index, done.total_sentences) for done in dones] == [(0, 1), (1, 0), (2, 1)]
    assert [start.sentence_index for start in harness.of(AudioStart)] == [0, 0]


def test_whole_files_come_as_one_binary_message_each() -> None:
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


@pytest.mark.parametrize("text", ["...", "🎉🎉", "?! \n --- ", "（）"])
def test_text_without_words_is_a_warning_and_not_silence(text: str) -> None:
    harness = configured()
    harness.text(text)
    harness.client(DONE)
    assert harness.submitted == []
    assert {warning.code for warning in harness.of(ServerWarning)} == {"nothing_to_speak"}
    assert harness.sent[-1].total_sentences == 0


def test_a_failed_sentence_says_why_and_the_next_one_speaks() -> None:
    harness = configured()
    harness.text("One is bad. Two is good.")
    harness.client(DONE)
    bad, good = harness.submitted
    harness.audio(bad, slice(0, 3))
    harness.finish(bad, SynthesisFailed("it broke"))
    harness.speak(good)
    error = harness.of(ServerError)[0]
    assert (error.code, error.sentence_index, error.fatal) == ("synthesis_failed", 0, False)
    first, second = harness.of(AudioDone)
    assert (first.error, first.reason, first.total_bytes) == (True, "error", 3 * 1920 * 2)
    assert (second.error, second.reason) == (False, "complete")


def test_a_failed_whole_file_is_not_sent_as_if_it_were_whole() -> None:
    harness = Harness()
    harness.text("One is bad.")
    harness.client(DONE)
    harness.audio(harness.submitted[0], slice(0, 3))
    harness.finish(harness.submitted[0], SynthesisFailed("it broke"))
    assert harness.of(bytes) == []
    assert harness.of(AudioDone)[0].total_bytes == 0


def test_an_overloaded_engine_ends_the_session_before_any_audio() -> None:
    harness = configured()
    harness.text("One is here. Two is here. And so on ")
    harness.finish(harness.submitted[0], Overloaded("full"))
    assert harness.of(AudioStart) == []
    assert harness.sent[-1] == Closed(1013, "overloaded")
    assert harness.ended_streams == ["sid"]


def test_close_finishes_what_was_asked_first() -> None:
    harness = configured()
    harness.text("Speak this")
    harness.client({"type": "session.close"})
    assert not harness.of(Closed)
    harness.speak_all()
    assert [type(each) for each in harness.sent[-2:]] == [SessionDone, Closed]
    assert harness.sent[-1].code == 1000
    assert harness.session.receive(KeepAlive(), 0.0) == []


def test_close_with_nothing_open_closes_at_once() -> None:
    harness = configured()
    harness.client({"type": "session.close"})
    assert harness.sent == [Closed(1000, "done")]


def test_leaving_takes_everything_back_from_the_engine_and_nothing_follows() -> None:
    harness = configured()
    harness.text("One is here. Two is here. Three is here. ")
    harness.carry_out(harness.session.abandon())
    assert harness.ended_streams == ["sid"]
    before = len(harness.sent)
    harness.speak_all()
    harness.text("More. Still more. ")
    assert len(harness.sent) == before


def test_more_text_than_may_wait_is_refused_and_none_of_it_taken() -> None:
    harness = configured(SessionLimits(max_pending_chars=100))
    harness.text("Hello there. ")
    harness.text("x" * 101)
    assert [error.code for error in harness.of(ServerError)] == ["text_too_long"]
    harness.client(DONE)
    harness.speak_all()
    assert [start.sentence_text for start in harness.of(AudioStart)] == ["Hello there."]


def test_idle_time_counts_from_the_last_thing_that_happened() -> None:
    harness = configured(SessionLimits(idle_s=10.0, session_s=100.0))
    assert harness.session.deadline_s == pytest.approx(10.0)
    harness.now_s = 8.0
    harness.client({"type": "session.keepalive"})
    assert harness.session.deadline_s == pytest.approx(18.0)
    harness.now_s = 95.0
    harness.client({"type": "session.keepalive"})
    assert harness.session.deadline_s == pytest.approx(70.0), "when the client is warned that the session ends"


def test_a_refused_utterance_that_was_sent_ahead_never_cuts_off_what_is_being_spoken() -> None:
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
