"""Text intake: slicing, flush, delay, backlog, warnings, and models that read ahead."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models import tone
from realtime_tts.frontends.native.messages import AudioDone, AudioStart, ServerWarning, SessionDone
from realtime_tts.text.pauses import MAX_PAUSE_S
from tests.session.harness import CANCEL, DONE, FLUSH, READING_AHEAD, STREAM, Harness, configured, in_context

TEXT = "One is here. Two, a longer one, is here too!  ... And a third?"


@given(cuts=st.lists(st.integers(0, len(TEXT)), max_size=8))
@settings(max_examples=25)
def test_any_slicing_of_a_text_gives_the_same_requests(cuts: list[int]) -> None:
    def requests(pieces: list[str]) -> list[str]:
        harness = configured()
        harness.text(*pieces)
        harness.client(DONE)
        harness.complete_all()
        return [request.text for request in harness.submitted]

    edges = [0, *sorted(cuts), len(TEXT)]
    assert requests([TEXT[a:b] for a, b in pairwise(edges)]) == requests([TEXT])


def test_a_long_message_is_split_in_blocks_with_the_same_result_as_at_once() -> None:
    text = "A. B. C? " * 3000
    at_once, in_blocks = configured(), configured()
    for each in (at_once, in_blocks):
        each.client_reads = False
    at_once.text(text)
    in_blocks.frame(json.dumps({"type": "input.text", "text": text}))
    has_backlog = in_blocks.session.has_backlog
    in_blocks.client(DONE)
    at_once.client(DONE)
    assert has_backlog, "in one step it would delay all other sessions"
    assert not in_blocks.session.has_backlog
    (one,), (other,) = (each.session._contexts.shared.utterances for each in (at_once, in_blocks))
    assert [each.sentence for each in one.sentences] == [each.sentence for each in other.sentences]
    assert one.total_sentences == 3000


def test_many_lines_without_words_give_one_warning() -> None:
    harness: Harness = configured()
    harness.text("...\n" * 50)
    harness.client(DONE)
    (warning,) = harness.of(ServerWarning)
    assert "49 more" in warning.message
    assert harness.submitted == []


def test_text_without_words_gives_a_warning_and_no_request() -> None:
    for text in ("...", "🎉🎉", "?! \n --- ", "（）"):
        harness = configured()
        harness.text(text)
        harness.client(DONE)
        assert harness.submitted == [], text
        assert {warning.code for warning in harness.of(ServerWarning)} == {"nothing_to_speak"}, text
        assert harness.sent[-1].total_sentences == 0, text


# -- Flush and delay ---------------------------------------------------------------------------------------------------


def test_flush_submits_the_buffered_text_and_the_utterance_stays_open() -> None:
    harness = configured()
    harness.text("Wait, what")
    assert harness.submitted == []
    harness.client(FLUSH)
    harness.text(" is that? Oh.")
    harness.client(DONE)
    harness.complete_all()
    starts = harness.of(AudioStart)
    assert [(s.sentence_index, s.sentence_text, s.text_span) for s in starts] == [
        (0, "Wait, what", (0, 10)),
        (1, "is that?", (11, 19)),
        (2, "Oh.", (20, 23)),
    ]
    assert [done.total_sentences for done in harness.of(SessionDone)] == [3]


def test_flush_with_nothing_buffered_has_no_effect() -> None:
    harness = configured()
    harness.client(FLUSH, in_context("unknown", FLUSH))
    assert harness.sent == []


def test_buffered_text_is_submitted_after_the_maximum_delay() -> None:
    harness = configured()
    harness.text("No end of sentence")
    harness.advance_to(2.9)
    harness.text(" in sight")
    harness.advance_to(5.8)
    assert harness.submitted == []
    harness.advance_to(6.0)
    assert [request.text for request in harness.submitted] == ["No end of sentence in"], "the last word may continue"
    harness.advance_to(500.0)
    assert len(harness.submitted) == 1
    harness.text(". More")
    harness.client(DONE)
    harness.complete_all()
    assert [request.text for request in harness.submitted] == ["No end of sentence in", "sight.", "More"]


def test_a_stalled_stream_does_not_divide_a_word() -> None:
    for first, rest, spoken in (
        ("I like straw", "berries. ", ["I like", "strawberries."]),
        ("It is $3.", "50 now. ", ["It is", "$3.50 now."]),
        ("Ask Dr.", " Hale. ", ["Ask", "Dr. Hale."]),
        ("See https://exam", "ple.com please. ", ["See", "https://example.com please."]),
        ("Yes. I do", "ubt it. ", ["Yes.", "I", "doubt it."]),
        ("All is said.", " More. ", ["All is said.", "More."]),
    ):
        harness = configured()
        harness.text(first)
        harness.advance_to(4.0)
        harness.text(rest)
        harness.client(DONE)
        harness.complete_all()
        assert [request.text for request in harness.submitted] == spoken, first


def test_a_pause_is_silence_before_the_next_sentence() -> None:
    harness = configured(word_timestamps=True)
    harness.text("Wait. [pause:1.5s] Go on. [pause:2s]")
    harness.client(DONE)
    harness.complete_all()
    assert [request.text for request in harness.submitted] == ["Wait.", "Go on."]
    first, second = harness.of(AudioDone)
    silence = round(1.5 * tone.info().sample_rate_hz)
    assert second.samples - silence == len(tone.render(harness.submitted[1]))
    assert first.samples == len(tone.render(harness.submitted[0]))
    data = b"".join(harness.of(bytes))
    assert data.count(bytes(2)) >= silence, "the pause is sent as silence"
    assert harness.playout_end_s > 1.5, "the playout clock knows the pause"


def test_a_long_pause_is_shortened_with_a_warning() -> None:
    harness = configured()
    harness.text("[pause:1e9s] Go.")
    harness.client(DONE)
    harness.complete_all()
    assert [warning.code for warning in harness.of(ServerWarning)] == ["pause_shortened"]
    (done,) = harness.of(AudioDone)
    assert done.samples == len(tone.render(harness.submitted[0])) + MAX_PAUSE_S * tone.info().sample_rate_hz


def test_a_pause_alone_is_no_speech() -> None:
    harness = configured()
    harness.text("[pause:2s]")
    harness.client(DONE)
    assert harness.submitted == []
    assert [done.total_sentences for done in harness.of(SessionDone)] == [0]


def test_a_maximum_delay_of_zero_disables_it() -> None:
    harness = configured(max_buffer_delay_ms=0)
    harness.text("No end of sentence")
    harness.advance_to(500.0)
    assert harness.submitted == []


# -- Reading ahead -----------------------------------------------------------------------------------------------------


def reading_ahead(**config: Any) -> Harness:
    harness = Harness(info=READING_AHEAD)
    harness.client({**STREAM, **config})
    harness.sent.clear()
    return harness


def test_a_model_that_reads_ahead_gets_a_sentence_before_its_end_was_received() -> None:
    harness = reading_ahead()
    harness.text("This sentence ")
    assert harness.submitted == [], "two words are too few for the intonation"
    harness.text("is only")
    harness.text(" just")
    (request,) = harness.submitted
    assert (request.text, request.text_complete) == ("This sentence is", False)
    harness.text(" being written. And")
    harness.text(" more text")
    assert [(each.text, each.complete) for each in harness.extended] == [
        (" only", False),
        (" just being", False),
        (" written.", True),
    ]
    assert request.text + "".join(each.text for each in harness.extended) == "This sentence is only just being written."


def test_only_the_next_sentence_to_submit_is_read_ahead() -> None:
    harness = reading_ahead()
    harness.text("One is here. Two is here. And then there is one that ")
    assert all(request.text_complete for request in harness.submitted)


def test_nothing_is_read_ahead_if_the_end_of_a_sentence_can_change_its_beginning() -> None:
    configs: list[dict[str, Any]] = [
        {"stream_audio": False},
        {"split_granularity": "clause"},
        {"pronunciations": {"a": "b"}},
    ]
    for config in configs:
        harness = reading_ahead(**config)
        harness.text("This sentence is only just being ")
        assert harness.submitted == [], config


def test_a_sentence_that_was_read_ahead_is_announced_with_its_beginning_and_reported_whole_at_its_end() -> None:
    harness = reading_ahead(text_filters=["markdown"])
    harness.text("This **sentence** is only just ")
    (request,) = harness.submitted
    harness.audio(request, slice(0, 3))
    harness.text("being written. And more.")
    harness.client(DONE)
    harness.finish(request)
    harness.complete(harness.submitted[1])
    start, second = harness.of(AudioStart)
    assert (start.sentence_text, start.text_span[0]) == ("This sentence is only just", 0)
    assert (second.sentence_index, second.sentence_text) == (1, "And more.")
    assert harness.of(AudioDone)[0].sentence_text == "This sentence is only just being written."
    assert harness.of(AudioDone)[1].sentence_text is None, "its audio.start had all of its text"
    assert harness.of(SessionDone)[0].total_sentences == 2


def test_a_wait_for_the_rest_of_a_sentence_is_no_underrun() -> None:
    harness = reading_ahead()
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


def test_a_cancel_withdraws_a_sentence_that_was_read_ahead() -> None:
    harness = reading_ahead()
    harness.text("This sentence is only just ")
    harness.audio(harness.submitted[0], slice(0, 3))
    harness.client(CANCEL)
    assert harness.cancelled == [harness.submitted[0].request_id]
    harness.text("being written. A new beginning is this one ")
    assert harness.extended == []
    assert [request.text for request in harness.submitted[1:]] == ["being written.", "A new beginning is this one"]
