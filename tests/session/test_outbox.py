"""The outbox: events that have left it count as sent, waiting events can be withdrawn."""

from realtime_tts.session.events import AudioChunk, SentenceDone, SentenceStarted
from tests.session.harness import DONE, configured


def test_a_sentence_is_tracked_from_its_start_to_its_end() -> None:
    harness = configured()
    harness.client_reads = False
    harness.text("Hello there. ")
    harness.client(DONE)
    harness.complete(harness.submitted[0])
    outbox = harness.session._outbox
    assert outbox.unsent_samples > 0
    assert outbox.next_audio() is None, "the start of the sentence comes first"
    started = outbox.next()
    assert isinstance(started, SentenceStarted)
    chunk = outbox.next_audio()
    assert isinstance(chunk, AudioChunk)
    state = outbox.sentence_of(chunk)
    assert state is not None
    assert state.start_sent
    assert not state.done_sent
    while outbox.next_audio() is not None:
        pass
    while not isinstance(done := outbox.next(), SentenceDone):
        assert done is not None
    assert outbox.sentence_of(done) is state
    assert outbox.sentence_of(done) is None, "its end is reported once"


def test_only_waiting_events_of_the_given_utterances_are_withdrawn() -> None:
    harness = configured()
    harness.client_reads = False
    for text in ("One is here.", "Two is here."):
        harness.text(text)
        harness.client(DONE)
    harness.complete_all()
    context = harness.session._contexts.get(None)
    assert context is not None
    before = len(harness.session._outbox)
    harness.session._outbox.withdraw(context.utterances[:1])
    left = len(harness.session._outbox)
    assert 0 < left < before
    started = harness.session._outbox.next()
    assert isinstance(started, SentenceStarted)
    assert started.utterance_index == 1


def test_the_memory_of_waiting_events_is_estimated_without_audio() -> None:
    harness = configured()
    harness.client_reads = False
    session = harness.session
    empty = session.waiting_bytes
    harness.client({"type": "session.config", "pronunciations": {"SQL": "sequel" * 10}})
    one = session.waiting_bytes - empty
    assert one > 60
    harness.client({"type": "session.config", "x" * 200: 1, "pronunciations": {"SQL": "sequel" * 10}})
    assert session.waiting_bytes - empty - one > one, "names that are sent back count"
    while session.next() is not None:
        pass
    assert session.waiting_bytes == 0
    harness.text("Hello there. " * 20)
    harness.client({"type": "input.cancel"})
    assert session.waiting_bytes > 260
    session.drop_unsent()
    assert session.waiting_bytes == 0
