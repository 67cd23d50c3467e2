"""One utterance: from the client's text to the sentences submitted to the engine."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.engine.api import EngineCommand
from realtime_tts.session.events import SegmentDone, TextCommitted, UtteranceDone, Warned
from realtime_tts.session.playback_queue import PlaybackQueue
from realtime_tts.session.request_builder import RequestBuilder, complete, extend
from realtime_tts.session.sentence import SentenceState, audible_after
from realtime_tts.session.settings import SessionSettings
from realtime_tts.text.cleaner import TextCleaner
from realtime_tts.text.pauses import MAX_PAUSE_S
from realtime_tts.text.splitter import Sentence, SentenceSplitter
from realtime_tts.text.unicode import is_speakable, printable

BLOCK_CHARS = 4096
"""Characters split into sentences at a time: 5 to 20 ms of work for sentences of one letter."""
EARLY_WORDS = 3
"""Words of a sentence before a model that reads ahead starts it: with fewer it would have to guess the intonation."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The text between two commits."""

    index: int = -1
    first_sentence: int = 0
    end_sentence: int = 0
    """Exclusive."""
    end_character: int = 0
    """Characters of the utterance before the second commit."""


@dataclass(slots=True, eq=False)
class Utterance:
    """The text up to a `Done`, with the settings that were in force at its beginning."""

    index: int
    context_id: str | None
    context_number: int
    settings: SessionSettings
    cleaner: TextCleaner
    splitter: SentenceSplitter
    queue: PlaybackQueue
    builder: RequestBuilder
    began_s: float
    """When its first text was received."""
    received: list[str] = field(default_factory=list)
    """Its text as the client sent it."""
    unread: str = ""
    """The part of it that is not yet split into sentences."""
    characters: int = 0
    pause_s: float = 0.0
    """Silence before the next sentence that has words."""
    early: SentenceState | None = None
    """The sentence that was submitted before its end was received."""
    sentences: list[SentenceState] = field(default_factory=list)
    """In playback order."""
    submitted: int = 0
    """Of `sentences`, how many were submitted to the engine."""
    passed_on: int = 0
    """Of `sentences`, how many were completely passed on."""
    total_sentences: int = 0
    last_segment: Segment = Segment()
    """Up to the last commit."""
    segments: list[Segment] = field(default_factory=list)
    """Committed and not completely passed on, in order."""
    complete: bool = False
    cancelled: bool = False
    done_sent: bool = False
    ledger: PlayoutLedger = field(default_factory=PlayoutLedger)
    ttfa_s: float | None = None

    @property
    def current(self) -> SentenceState | None:
        """The sentence that is next to be passed on."""
        return self.sentences[self.passed_on] if self.passed_on < len(self.sentences) else None

    @property
    def begun(self) -> list[SentenceState]:
        """Sentences of which something was passed on."""
        current = self.current
        return self.sentences[: self.passed_on + (current is not None and current.started)]

    @property
    def has_waiting(self) -> bool:
        """Whether sentences wait to be submitted."""
        return self.submitted < len(self.sentences)

    def next_to_submit(self) -> SentenceState | None:
        if not self.has_waiting:
            return None
        self.submitted += 1
        return self.sentences[self.submitted - 1]

    @property
    def text(self) -> str:
        return "".join(self.received)

    @property
    def audio_s(self) -> float:
        """Seconds of audio sent."""
        return self.ledger.audio_s

    @property
    def pending_chars(self) -> int:
        """Received, and not yet part of a sentence."""
        return self.splitter.pending_chars + len(self.unread)

    # -- Text intake ---------------------------------------------------------------------------------------------------

    def push(self, text: str, now_s: float) -> Iterator[EngineCommand | Warned]:
        """Receives more text, and splits a first block of it."""
        self.received.append(text)
        self.characters += len(text)
        self.unread += text
        yield from self.read_block(now_s)

    def read_block(self, now_s: float) -> Iterator[EngineCommand | Warned]:
        """Splits some more of a long text: all of it at once would delay all other sessions."""
        block, self.unread = self.unread[:BLOCK_CHARS], self.unread[BLOCK_CHARS:]
        yield from self._on_sentences(self.splitter.push(self.cleaner.push(block)), now_s)
        if self.builder.reads_ahead and not self.unread:
            yield from self._on_beginning(now_s)

    def flush(self, now_s: float) -> Iterator[EngineCommand | Warned]:
        """Makes sentences of all buffered text."""
        while self.unread:
            yield from self.read_block(now_s)
        sentences = self.splitter.push(self.cleaner.flush())
        sentences += self.splitter.flush()
        yield from self._on_sentences(sentences, now_s)

    def flush_finished(self, now_s: float) -> Iterator[EngineCommand | Warned]:
        """Makes sentences of the buffered text but its last word, number or link, which may be half received.

        Mark-up of which only the start was received waits too.
        """
        while self.unread:
            yield from self.read_block(now_s)
        yield from self._on_sentences(self.splitter.flush_finished(), now_s)

    def finish(self, now_s: float) -> Iterator[EngineCommand | Warned]:
        """No more text follows."""
        self.complete = True
        yield from self.flush(now_s)

    def _on_sentences(self, sentences: list[Sentence], now_s: float) -> Iterator[EngineCommand | Warned]:
        if self.early is not None and sentences:
            yield complete(self.early, sentences[0], now_s)
            if sentences[0].pause_shortened:
                yield self._pause_shortened()
            self.early, end = None, sentences[0].end
            sentences = sentences[1:]
            self.cleaner.forget(end)
        for sentence in sentences:
            self.pause_s += sentence.pause_s
            if sentence.pause_shortened:
                yield self._pause_shortened()
            if is_speakable(sentence.text):
                self._enqueue(self.builder.build(self, sentence, now_s))
        if sentences:
            self.cleaner.forget(sentences[-1].end)
        # One warning for all: a single message can contain tens of thousands of lines without a word.
        if wordless := [sentence for sentence in sentences if not is_speakable(sentence.text)]:
            more = f" and {len(wordless) - 1} more like it" if len(wordless) > 1 else ""
            message = f"there are no words in {printable(wordless[0].text[:80])!r}{more}: skipped"
            yield Warned("nothing_to_speak", message, self.index, self.context_id)
        yield from self.queue.submit_next()

    def _pause_shortened(self) -> Warned:
        message = f"a pause has at most {MAX_PAUSE_S:g} s: shortened"
        return Warned("pause_shortened", message, self.index, self.context_id)

    def _on_beginning(self, now_s: float) -> Iterator[EngineCommand]:
        """For a model that reads ahead: submits the sentence whose end has not been received."""
        beginning = self.splitter.beginning
        if beginning is None or self.settings.pronunciations.words or not self.settings.stream_audio:
            return
        if self.early is not None:
            yield from extend(self.early, beginning)
            return
        enough = len(beginning.text.split()) >= EARLY_WORDS and is_speakable(beginning.text)
        if enough and self.queue.has_room(self):
            self.early = self.builder.build(self, beginning, now_s, is_complete=False)
            self.pause_s += beginning.pause_s
            self._enqueue(self.early)
            yield from self.queue.submit_next()

    def _enqueue(self, sentence: SentenceState) -> None:
        sentence.pause_s, self.pause_s = min(self.pause_s, MAX_PAUSE_S), 0.0
        self.total_sentences += 1
        self.queue.add(sentence)

    # -- Delivery ------------------------------------------------------------------------------------------------------

    def on_audible(self, leading_silence_s: float | None) -> None:
        """Audio of a sentence that begins with `leading_silence_s` was sent; None while all of it is silence."""
        if leading_silence_s is not None:
            ttfp_s = self.ledger.report(started_at_s=self.began_s).ttfp_s
            self.ttfa_s = audible_after(ttfp_s, leading_silence_s)

    def commit(self, commit_id: str | None) -> TextCommitted:
        """The acknowledgement of the text since the last commit, all of which has been flushed."""
        last = self.last_segment
        segment = Segment(last.index + 1, last.end_sentence, self.total_sentences, self.characters)
        self.last_segment = segment
        self.segments.append(segment)
        return TextCommitted(
            utterance_index=self.index,
            context_id=self.context_id,
            commit_id=commit_id,
            sentence_index=segment.first_sentence,
            sentences=segment.end_sentence - segment.first_sentence,
            characters=segment.end_character - last.end_character,
        )

    def segments_done(self) -> Iterator[SegmentDone]:
        """The segments of which everything has been passed on since the last call."""
        while self.segments and self.segments[0].end_sentence <= self.passed_on:
            segment = self.segments.pop(0)
            yield SegmentDone(
                utterance_index=self.index,
                context_id=self.context_id,
                segment_index=segment.index,
                sentences=segment.end_sentence - segment.first_sentence,
                total_sentences=segment.end_sentence,
            )

    def cancel(self) -> None:
        begun = self.begun
        self.cancelled = self.complete = True
        self.sentences = begun
        self.submitted = self.passed_on = len(begun)

    def played_s(self, at_s: float) -> float:
        """Seconds of it that a listener who plays audio on arrival has played by `at_s`."""
        return sum(sentence.played_s(at_s) for sentence in self.begun)

    def done_event(self) -> UtteranceDone:
        report = self.ledger.report(started_at_s=self.began_s)
        threshold_s = self.settings.continuity_threshold_s
        spoken = [each for each in self.begun if each.start_sent] if self.cancelled else self.sentences
        finished = [each.finished for each in spoken]
        return UtteranceDone(
            utterance_index=self.index,
            context_id=self.context_id,
            total_sentences=len(spoken),
            cancelled=self.cancelled,
            characters=self.characters,
            report=report,
            ttfa_s=self.ttfa_s,
            continuity_ok=report.continuity_ok(threshold_s),
            continuity_threshold_s=threshold_s,
            outcomes=tuple(each.reason for each in finished if each is not None),
        )
