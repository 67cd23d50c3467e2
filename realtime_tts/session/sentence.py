"""The state of one sentence: waiting, at the engine, being sent, done."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.audio.time_stretch import StreamingStretcher
from realtime_tts.engine.api import (
    AnswerRequest,
    FinishReason,
    RequestFinished,
    Samples,
    Submit,
    SubmitAnswer,
    SynthesisRequest,
    TextFinished,
    TextReady,
    Word,
)
from realtime_tts.session.events import (
    AudioChunk,
    AudioEnd,
    SentenceDone,
    SentenceFailed,
    SentenceStarted,
    SpokenWord,
    Words,
)
from realtime_tts.session.outbox import Outbox
from realtime_tts.text.offsets import AlignedText, OffsetMap
from realtime_tts.text.splitter import Sentence
from realtime_tts.text.unicode import without_surrogates

if TYPE_CHECKING:
    from realtime_tts.session.utterance import Utterance

AUDIBLE = 10 ** (-40 / 20)
"""The first sample above -40 dBFS counts as audible: breath and the noise of a model are below."""

MAX_SILENT_CHUNK_S = 0.5
"""A longer pause is sent in several chunks."""


@dataclass(slots=True, eq=False)
class SentenceState:
    """One sentence of an utterance.

    Its audio is sent at the model's rate, stretched by `tempo` where the model has no speed of its own.
    """

    index: int
    sentence: Sentence
    """Its offsets are those of the cleaned text."""
    offsets: OffsetMap
    """From the sentence to the text as received."""
    respelled: AlignedText
    utterance: "Utterance"
    request: SynthesisRequest | AnswerRequest
    sample_rate_hz: int
    tempo: float
    text_complete_at_s: float
    """Infinite while its end has not been received."""
    has_word_times: bool
    """Whether the model reports when each word is spoken."""
    speakable_at_s: float
    """When enough of its text had been received to speak it."""
    pause_s: float = 0.0
    """Silence before its first audio, as the text asks for.  It is sent with the audio, so it is never alone."""
    held: list[Samples | tuple[Word, ...]] = field(default_factory=list)
    """Audio and word times from the engine that wait until earlier sentences are passed on."""
    words: list[Word] = field(default_factory=list)
    finished: RequestFinished | None = None
    started: bool = False
    labelled: bool = False
    start_sent: bool = False
    done_sent: bool = False
    announced_text: str | None = None
    """The text of its `SentenceStarted`."""
    ledger: PlayoutLedger = field(default_factory=PlayoutLedger)
    due_from_s: float | None = None
    """The earliest time at which it could have been sent: its text complete, and everything before it sent."""
    leading_silence_s: float | None = None
    samples_made: int = 0
    """By the model."""
    samples_out: int = 0
    """Passed on, after the stretcher."""
    audio_sent_s: float = 0.0
    samples_reported: int = 0
    """Of `samples_made`, those reported to the engine as sent."""
    played_intervals: list[tuple[float, float]] = field(default_factory=list)
    """`[begin, end)` of each gapless part of its playback, in clock time, if the client plays audio on arrival."""
    _stretcher: StreamingStretcher | None = None

    @property
    def key(self) -> tuple[int, int]:
        return self.utterance.index, self.index

    @property
    def is_spoken(self) -> bool:
        """Whether it has audio; an answer may have text alone."""
        return isinstance(self.request, SynthesisRequest) or self.request.voice is not None

    def submission(self) -> Submit | SubmitAnswer:
        return Submit(self.request) if isinstance(self.request, SynthesisRequest) else SubmitAnswer(self.request)

    def on_text(self, event: TextReady | TextFinished) -> None:
        """Text that the model has written: only answers pass it on."""

    # -- Passing on ----------------------------------------------------------------------------------------------------

    def start(self, outbox: Outbox, *, labelled: bool) -> None:
        """To be called once, before `pass_on` and `end`, when this sentence is next in playback order."""
        self.started = True
        self.labelled = labelled
        if self.wants_words and not self.has_word_times:
            outbox.add(self._words("unsupported"))

    def pass_on_text(self, outbox: Outbox) -> None:
        """Moves the text of an answer to the outbox: before its audio, which may begin later."""

    def pass_on(self, outbox: Outbox) -> None:
        """Moves held audio and word times to the outbox, in order."""
        if not self.held:
            return
        held, self.held = self.held, []
        for each in held:
            if isinstance(each, tuple):
                outbox.add(self._words("ok", tuple(self._spoken(word) for word in each)))
            else:
                self.pass_on_audio(each, outbox)

    def pass_on_audio(self, samples: Samples, outbox: Outbox) -> None:
        """To be called by others only if nothing is held, and the sentence has started."""
        self.samples_made += len(samples)
        self._add_audio(samples if self.tempo == 1.0 else self._stretched(samples), outbox)

    def end(self, outbox: Outbox) -> None:
        """Adds the rest of the audio, and the error if there is one, to the outbox."""
        assert self.finished is not None
        error = self.finished.error
        if self.wants_words and self.has_word_times and not self.words and error is None:
            outbox.add(self._words("failed"))
        if self._stretcher is not None:
            self._add_audio(self._stretcher.flush(), outbox)
            self._stretcher = None
        if self.is_spoken:
            outbox.add(AudioEnd(*self.key, failed=self.finished.reason is FinishReason.ERROR))
        if error is not None:
            outbox.add(SentenceFailed(*self.key, self.utterance.context_id, error))

    def _stretched(self, samples: Samples) -> Samples:
        if self._stretcher is None:
            self._stretcher = StreamingStretcher(self.sample_rate_hz, self.tempo)
        return self._stretcher.push(samples)

    def _add_audio(self, samples: Samples, outbox: Outbox) -> None:
        if not len(samples):
            return
        if not self.samples_out:
            self._pass_on_pause(outbox)
        if self.leading_silence_s is None and (loud := np.flatnonzero(np.abs(samples) > AUDIBLE)).size:
            self.leading_silence_s = (self.samples_out + int(loud[0])) / self.sample_rate_hz
        outbox.add(AudioChunk(self.utterance.index, self.index, samples, self.samples_out))
        self.samples_out += len(samples)

    def _pass_on_pause(self, outbox: Outbox) -> None:
        rest = round(self.pause_s * self.sample_rate_hz)
        while rest:
            silence = np.zeros(min(rest, round(MAX_SILENT_CHUNK_S * self.sample_rate_hz)), dtype=np.float32)
            outbox.add(AudioChunk(self.utterance.index, self.index, silence, self.samples_out))
            self.samples_out += len(silence)
            rest -= len(silence)

    # -- Values for the client -----------------------------------------------------------------------------------------

    def started_event(self) -> SentenceStarted:
        self.announced_text = self.sentence.text
        utterance = self.utterance
        return SentenceStarted(
            *self.key,
            context_id=utterance.context_id,
            context_number=utterance.context_number,
            text=self.sentence.text,
            text_span=self.text_span,
            audio_format=utterance.settings.audio_format,
            sample_rate_hz=self.sample_rate_hz,
            streamed=utterance.settings.stream_audio,
            labelled=self.labelled,
            timestamps_in_audio=utterance.settings.word_timestamps and utterance.settings.timestamps_in_audio,
        )

    def done_event(self) -> SentenceDone:
        assert self.finished is not None
        report = self.ledger.report(started_at_s=self.due_from_s)
        text = self.sentence.text
        return SentenceDone(
            *self.key,
            context_id=self.utterance.context_id,
            full_text=text if self.announced_text not in (None, text) else None,
            reason=self.finished.reason,
            failed=self.finished.error is not None,
            report=report,
            ttfa_s=audible_after(report.ttfp_s, self.leading_silence_s),
            metrics=self.finished.metrics,
            continuity_ok=report.continuity_ok(self.utterance.settings.continuity_threshold_s),
        )

    def _words(self, status: str, words: tuple[SpokenWord, ...] = ()) -> Words:
        return Words(*self.key, self.utterance.context_id, status, words)

    def _spoken(self, word: Word) -> SpokenWord:
        start, end = self.word_span(word)
        return SpokenWord(
            text=without_surrogates(self.sentence.text[start:end]),
            start_s=self.pause_s + word.start_s / self.tempo,
            end_s=self.pause_s + word.end_s / self.tempo,
            text_span=(self.source(start), self.source(end)),
        )

    # -- Sent ----------------------------------------------------------------------------------------------------------

    def on_audio_sent(self, audio_s: float, now_s: float, playout_end_s: float | None) -> int:
        """`audio_s` of it went to the socket at `now_s`; the listener plays what was sent before until `playout_end_s`.

        Returns the samples of the model that are sent with it.
        """
        self.audio_sent_s += audio_s
        utterance = self.utterance
        for ledger in (self.ledger, utterance.ledger):
            # A listener that ran out before this sentence's text was complete waits for the text, not for the server.
            end_s = ledger.playout_end_s
            starved = end_s is not None and self.text_complete_at_s > end_s
            ledger.record(arrived_at_s=now_s, duration_s=audio_s, text_starved=starved, playing_until_s=playout_end_s)
        if utterance.ttfa_s is None:
            utterance.on_audible(self.leading_silence_s)
        self._extend_playback(now_s if playout_end_s is None else max(now_s, playout_end_s), audio_s)
        spoken_s = max(0.0, self.audio_sent_s - self.pause_s)
        return self._report(min(round(spoken_s * self.sample_rate_hz * self.tempo), self.samples_made))

    def on_done_sent(self) -> int:
        """No more of it will be sent.  Returns the samples not yet reported to the engine as sent."""
        return self._report(self.samples_made)

    def _report(self, upto: int) -> int:
        more = max(0, upto - self.samples_reported)
        self.samples_reported += more
        return more

    def _extend_playback(self, begin_s: float, audio_s: float) -> None:
        intervals = self.played_intervals
        if intervals and begin_s - intervals[-1][1] < 1e-6:
            intervals[-1] = (intervals[-1][0], intervals[-1][1] + audio_s)
        else:
            intervals.append((begin_s, begin_s + audio_s))

    def played_s(self, at_s: float) -> float:
        """Seconds of it that a listener who plays audio on arrival has played by `at_s`."""
        return sum(min(max(at_s - begin, 0.0), end - begin) for begin, end in self.played_intervals)

    # -- Text ----------------------------------------------------------------------------------------------------------

    @property
    def wants_words(self) -> bool:
        return self.utterance.settings.word_timestamps

    @property
    def text_span(self) -> tuple[int, int]:
        """In the utterance's text as received."""
        return self.source(0), self.source(len(self.sentence.text))

    def source(self, offset: int) -> int:
        """The offset in the received text of the character at `offset` of the sentence."""
        # A surrogate pair received as two characters is one character here, so the end needs a case of its own.
        is_end = offset >= len(self.sentence.text)
        return self.offsets.source_end(self.offsets.length) if is_end else self.offsets.source(offset)

    def word_span(self, word: Word) -> tuple[int, int]:
        """A word of the request, as characters of the sentence."""
        return self.respelled.source(word.start), self.respelled.source_end(word.end)


def audible_after(ttfp_s: float | None, leading_silence_s: float | None) -> float | None:
    """Time to the first audible sample: time to the first packet plus the silence at its beginning."""
    return None if ttfp_s is None or leading_silence_s is None else ttfp_s + leading_silence_s
