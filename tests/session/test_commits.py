"""Commits: the acknowledgement of text at once, and of its segment after the audio."""

from realtime_tts.frontends.native.messages import ServerError
from realtime_tts.session.events import SegmentDone, SentenceDone, SessionEvent, TextCommitted, UtteranceDone
from realtime_tts.session.session import MAX_PENDING_COMMITS
from tests.session.harness import DONE, configured


def test_a_commit_is_acknowledged_at_once_and_its_segment_after_the_audio() -> None:
    harness = configured()
    events: list[SessionEvent] = []
    harness.client_reads = False
    harness.text("One is here. Two is ")
    harness.client({"type": "input.commit", "commit_id": "first"})
    harness.text(" And more.")
    harness.client({"type": "input.commit"}, {"type": "input.commit", "commit_id": "empty"}, DONE)
    while (event := harness.session.next()) is not None:
        events.append(event)
    commits = [each for each in events if isinstance(each, TextCommitted)]
    assert [(c.commit_id, c.sentence_index, c.sentences, c.characters) for c in commits] == [
        ("first", 0, 2, 20),
        (None, 2, 1, 10),
        ("empty", 3, 0, 0),
    ]
    events.clear()
    for number in range(3):
        harness.complete(harness.submitted[number])
        while (event := harness.session.next()) is not None:
            events.append(event)
            harness.execute(harness.session.on_event_sent(event, 0.0))
    order = [each for each in events if isinstance(each, SentenceDone | SegmentDone | UtteranceDone)]
    assert [type(each) for each in order] == [SentenceDone] * 2 + [SegmentDone, SentenceDone] + [SegmentDone] * 2 + [
        UtteranceDone
    ]
    segments = [each for each in order if isinstance(each, SegmentDone)]
    assert [(s.segment_index, s.sentences, s.total_sentences) for s in segments] == [(0, 2, 2), (1, 1, 3), (2, 0, 3)]


def test_a_commit_of_a_cancelled_utterance_has_no_segment() -> None:
    harness = configured()
    harness.client_reads = False
    harness.text("One is here.")
    harness.client({"type": "input.commit"})
    harness.complete(harness.submitted[0])
    harness.client({"type": "input.cancel"})
    events = [harness.session.next() for _ in range(harness.session.waiting)]
    assert any(isinstance(each, TextCommitted) for each in events)
    assert not any(isinstance(each, SegmentDone) for each in events)


def test_commits_that_wait_for_their_audio_are_bounded() -> None:
    harness = configured()
    harness.text("One is here.")
    for _ in range(MAX_PENDING_COMMITS + 1):
        harness.client({"type": "input.commit"})
    (error,) = harness.of(ServerError)
    assert (error.code, error.retryable, error.fatal) == ("text_too_long", True, False)
