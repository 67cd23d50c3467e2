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
