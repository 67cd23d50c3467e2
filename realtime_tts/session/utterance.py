"""One utterance and its sentences: what each has sent so far, how its listener fared, and what was heard of it."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from realtime_tts.audio.encoder import Encoder, Packet, make_encoder
from realtime_tts.audio.playout import ContinuityReport, PlayoutLedger
from realtime_tts.engine.api import FinishReason, RequestFinished, Samples, SynthesisRequest, Word
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.session.framing import FrameHeader
from realtime_tts.session.messages import (
    AudioDone,
    AudioStart,
    AudioTimestamps,
    Continuity,
    SentenceMetrics,
    ServerError,
    SessionDone,
    Usage,
    WordTiming,
    sendable,
)
from realtime_tts.session.respell import Respelled
from realtime_tts.session.sentences import Sentence, SentenceSplitter
from realtime_tts.session.settings import SessionSettings
from realtime_tts.session.text import TextCleaner

AUDIBLE = 10 ** (-40 / 20)
"""The first sample above -40 dBFS counts as audible: what lies below is a voice's breath and a model's noise."""


@dataclass(frozen=True, slots=True)
class SendStart:
    """Becomes `audio.start`."""

    job: "SentenceJob"


@dataclass(frozen=True, slots=True)
class SendWords:
    """Becomes `audio.timestamps`."""

    job: "SentenceJob"
    words: tuple[Word, ...]
    status: str = "ok"


@dataclass(frozen=True, slots=True)
class SendAudio:
    """One binary frame.  `samples` and `duration_s` are what it holds of sound, at the wire's rate."""

    job: "SentenceJob"
    data: bytes
    samples: int
    duration_s: float
    header: bytes = b""


@dataclass(frozen=True, slots=True)
class SendFailure:
    """Becomes the `error` that says why a sentence has failed."""

    job: "SentenceJob"
    error: RealtimeTTSError


@dataclass(frozen=True, slots=True)
class SendSentenceDone:
    """Becomes `audio.done` when its turn to be sent has come: its figures are those of what was sent before it."""

    job: "SentenceJob"


@dataclass(frozen=True, slots=True)
class SendUtteranceDone:
    """Becomes `session.done` when its turn to be sent has come."""

    utterance: "Utterance"


Sending: TypeAlias = SendStart | SendWords | SendAudio | SendFailure | SendSentenceDone
"""What a sentence has sent."""


@dataclass(slots=True, eq=False)
class Utterance:
    """The text between two `input.done`, with the settings that were in force when it began."""

    index: int
    context_id: str | None
    context_number: int
    settings: SessionSettings
    cleaner: TextCleaner
    splitter: SentenceSplitter
    began_s: float
    """When its first text came."""
    received: list[str] = field(default_factory=list)
    """Its text as the client sent it."""
    unread: str = ""
    """Of that, what is not yet cut into sentences."""
    characters: int = 0
    jobs: deque["SentenceJob"] = field(default_factory=deque)
    """Sentences not yet wholly passed on, in the order of hearing."""
    waiting: deque["SentenceJob"] = field(default_factory=deque)
    """Of those, the ones not yet with the engine."""
    begun: list["SentenceJob"] = field(default_factory=list)
    """Sentences of which something was passed on."""
    total_sentences: int = 0
    complete: bool = False
    cancelled: bool = False
    done_sent: bool = False
    ledger: PlayoutLedger = field(default_factory=PlayoutLedger)
    ttfa_s: float | None = None

    @property
    def text(self) -> str:
        return "".join(self.received)

    @property
    def audio_s(self) -> float:
        """Seconds of sound that were sent."""
        return self.ledger.report().audio_s

    def done_message(self) -> SessionDone:
        report = self.ledger.report(started_at_s=self.began_s)
        return SessionDone(
            total_sentences=sum(job.start_sent for job in self.begun) if self.cancelled else self.total_sentences,
            utterance_index=self.index,
            reason="cancelled" if self.cancelled else "complete",
            usage=Usage(characters=self.characters, audio_ms=_ms(report.audio_s)),
            continuity=Continuity(
                ttfp_ms=_ms_or_none(report.ttfp_s),
                ttfa_ms=_ms_or_none(self.ttfa_s),
                audio_ms=_ms(report.audio_s),
                packets=report.packets,
                underrun_count=report.underrun_count,
                underrun_total_ms=_ms(report.underrun_total_s),
                max_underrun_ms=_ms(report.max_underrun_s),
                text_starvation_ms=_ms(report.text_starvation_s),
                continuity_ok=_verdict(report, self.settings),
            ),
            context_id=self.context_id,
        )


@dataclass(slots=True, eq=False)
class SentenceJob:
    """One sentence on its way: waiting, with the engine, being sent, done."""

    index: int
    sentence: Sentence
    """Its offsets are those of the text as cleaned."""
    sources: tuple[int, ...] | None
    """For each character of the sentence, and its end, where it came from in the text as received; None where that
    is the same."""
    respelled: Respelled
    utterance: Utterance
    request: SynthesisRequest
    model_rate_hz: int
    tempo: float
    closed_s: float
    """When its text was complete."""
    gives_words: bool
    """Whether the model says when each word is heard."""
    held: list[Samples | tuple[Word, ...]] = field(default_factory=list)
    """Sound and words that wait for their turn."""
    words: list[Word] = field(default_factory=list)
    finished: RequestFinished | None = None
    started: bool = False
    framed: bool = False
    """Whether its frames begin with a header."""
    start_sent: bool = False
    done_sent: bool = False
    ledger: PlayoutLedger = field(default_factory=PlayoutLedger)
    wanted_s: float | None = None
    """When it could first have been sent: its text complete, and everything before it routed."""
    total_bytes: int = 0
    samples: int = 0
    """Sent, at the wire's rate."""
    leading_silence_s: float | None = None
    model_samples: int = 0
    """Made, at the model's rate."""
    routed_samples: int = 0
    """Of those, the ones that the engine was told were sent."""
    heard_from: list[tuple[float, float]] = field(default_factory=list)
    """[begin, end) of each stretch in which the listener plays it without a gap, by the clock."""
    _encoder: Encoder | None = None
    """Made when the sentence is sent: a resampler holds 50 kB, and tens of thousands of sentences may be waiting."""
    _packed: int = 0
    _packed_samples: int = 0

    # -- On the way out ------------------------------------------------------------------------------------------------

    def pass_on(self, *, framed: bool) -> Iterator[Sending]:
        """Sends what is held; only called when it is this sentence's turn."""
        held, self.held = self.held, []
        for each in held:
            yield from self._start(framed=framed)
            if isinstance(each, tuple):
                yield SendWords(self, each)
                continue
            self._look_for_sound(each)
            self.model_samples += len(each)
            yield from (self._audio(packet) for packet in self._make_encoder().encode(each))

    def end(self, *, framed: bool) -> Iterator[Sending]:
        """The rest of the sound, and how it ended: every `audio.start` has its `audio.done`."""
        assert self.finished is not None
        error = self.finished.error
        yield from self._start(framed=framed)
        if self.asks_words and self.gives_words and not self.words and error is None:
            yield SendWords(self, (), "failed")
        # A whole file that lacks its end would look complete, so a failed one is not sent at all.
        if self.utterance.settings.stream_audio or self.finished.reason is not FinishReason.ERROR:
            packets = self._make_encoder().flush()
            if self.framed and not packets:
                packets = [Packet(b"", 0)]  # no sound is left, but the frame that is marked as the last
            for left, packet in zip(range(len(packets), 0, -1), packets, strict=True):
                yield self._audio(packet, last=left == 1)
        if error is not None:
            yield SendFailure(self, error)
        yield SendSentenceDone(self)

    def _start(self, *, framed: bool) -> Iterator[Sending]:
        if self.started:
            return
        self.started = True
        self.framed = framed
        self.utterance.begun.append(self)
        yield SendStart(self)
        if self.asks_words and not self.gives_words:
            yield SendWords(self, (), "unsupported")

    def _make_encoder(self) -> Encoder:
        if self._encoder is None:
            settings = self.utterance.settings
            self._encoder = make_encoder(
                settings.format, self.model_rate_hz, streaming=settings.stream_audio, tempo=self.tempo
            )
        return self._encoder

    def _audio(self, packet: Packet, *, last: bool = False) -> SendAudio:
        header = b""
        if self.framed:
            number = self.utterance.context_number
            header = FrameHeader(number, self.index, self._packed, self._packed_samples, last=last).pack()
        self._packed += 1
        self._packed_samples += packet.samples
        duration_s = self.utterance.settings.format.seconds(packet.samples)
        return SendAudio(self, packet.data, packet.samples, duration_s, header)

    def _look_for_sound(self, samples: Samples) -> None:
        if self.leading_silence_s is None and (loud := np.flatnonzero(np.abs(samples) > AUDIBLE)).size:
            self.leading_silence_s = (self.model_samples + int(loud[0])) / self.model_rate_hz / self.tempo

    # -- Sent ----------------------------------------------------------------------------------------------------------

    def on_sent(self, audio: SendAudio, now_s: float, hearing_until_s: float | None) -> int:
        """Moves the clocks of this sentence and of its utterance: `audio` went to the socket at `now_s`.

        Until `hearing_until_s` the listener hears what was sent before.  Returns the samples at the model's rate that
        are sent with it.
        """
        self.total_bytes += len(audio.data)
        self.samples += audio.samples
        if not audio.samples:
            return 0
        utterance = self.utterance
        playout_end_s = utterance.ledger.playout_end_s
        # The listener had run dry before this sentence's text was complete: that wait is the text's, not ours.
        starved = playout_end_s is not None and self.ledger.playout_end_s is None and self.closed_s > playout_end_s
        self.ledger.record(arrived_at_s=now_s, duration_s=audio.duration_s, hearing_until_s=hearing_until_s)
        utterance.ledger.record(
            arrived_at_s=now_s,
            duration_s=audio.duration_s,
            text_starved=starved,
            hearing_until_s=hearing_until_s,
        )
        if utterance.ttfa_s is None:
            ttfp_s = utterance.ledger.report(started_at_s=utterance.began_s).ttfp_s
            utterance.ttfa_s = _audible_after(ttfp_s, self.leading_silence_s)
        self._note_hearing(max(now_s, hearing_until_s or now_s), audio.duration_s)
        sent = round(self.samples / utterance.settings.format.sample_rate_hz * self.model_rate_hz * self.tempo)
        return self._route(min(sent, self.model_samples))

    def on_done_sent(self) -> int:
        """Nothing more of it will be sent; returns the samples that the engine was not yet told of."""
        self._encoder = None
        return self._route(self.model_samples)

    def _route(self, upto: int) -> int:
        newly = max(0, upto - self.routed_samples)
        self.routed_samples += newly
        return newly

    def _note_hearing(self, begin_s: float, duration_s: float) -> None:
        if self.heard_from and begin_s - self.heard_from[-1][1] < 1e-6:
            self.heard_from[-1] = (self.heard_from[-1][0], self.heard_from[-1][1] + duration_s)
        else:
            self.heard_from.append((begin_s, begin_s + duration_s))

    def audio_s(self) -> float:
        """Seconds of its sound that were sent."""
        return sum(end - begin for begin, end in self.heard_from)

    def played_s(self, at_s: float) -> float:
        """Seconds of its sound that the listener has heard by `at_s`, who plays everything as soon as it comes."""
        return sum(min(max(at_s - begin, 0.0), end - begin) for begin, end in self.heard_from)

    # -- Text ----------------------------------------------------------------------------------------------------------

    @property
    def asks_words(self) -> bool:
        return self.utterance.settings.word_timestamps

    @property
    def text_span(self) -> tuple[int, int]:
        """In the text of the utterance as received."""
        return self.source(0), self.source(len(self.sentence.text))

    def source(self, offset: int) -> int:
        """Where the character at `offset` of the sentence came from in the text as received."""
        if offset >= len(self.sentence.text):
            return self.sentence.end if self.sources is None else self.sources[-1]
        if self.sources is None:
            return min(self.sentence.start + offset, self.sentence.end)
        return self.sources[offset]

    def word_span(self, word: Word) -> tuple[int, int]:
        """A word of the request, as characters of the sentence."""
        return self.respelled.source(word.start), self.respelled.source_end(word.end)

    # -- Messages ------------------------------------------------------------------------------------------------------

    def start_message(self) -> AudioStart:
        audio_format = self.utterance.settings.format
        return AudioStart(
            sentence_index=self.index,
            sentence_text=self.sentence.text,
            format=audio_format.encoding.value,
            sample_rate=audio_format.sample_rate_hz,
            channels=audio_format.channels,
            utterance_index=self.utterance.index,
            text_span=self.text_span,
            frame_header=self.framed,
            context_number=self.utterance.context_number,
            context_id=self.utterance.context_id,
            pre_skip=self._make_encoder().pre_skip_samples or None,
        )

    def words_message(self, words: tuple[Word, ...], status: str) -> AudioTimestamps:
        return AudioTimestamps(
            sentence_index=self.index,
            utterance_index=self.utterance.index,
            status=status,
            words=tuple(self._timing(word) for word in words),
            context_id=self.utterance.context_id,
        )

    def _timing(self, word: Word) -> WordTiming:
        start, end = self.word_span(word)
        return WordTiming(
            word=sendable(self.sentence.text[start:end]),
            start_ms=_ms(word.start_s / self.tempo),
            end_ms=_ms(word.end_s / self.tempo),
            text_span=(self.source(start), self.source(end)),
        )

    def failure_message(self, error: RealtimeTTSError, session_id: str) -> ServerError:
        return ServerError(
            code=error.code,
            message=error.message,
            fatal=False,
            retryable=error.retryable,
            session_id=session_id,
            context_id=self.utterance.context_id,
            utterance_index=self.utterance.index,
            sentence_index=self.index,
            retry_after_ms=None if error.retry_after_s is None else error.retry_after_s * 1000,
        )

    def done_message(self) -> AudioDone:
        assert self.finished is not None
        report = self.ledger.report(started_at_s=self.wanted_s)
        metrics = self.finished.metrics
        ttfa_s = _audible_after(report.ttfp_s, self.leading_silence_s)
        return AudioDone(
            sentence_index=self.index,
            total_bytes=self.total_bytes,
            error=self.finished.error is not None,
            utterance_index=self.utterance.index,
            duration_ms=_ms(report.audio_s),
            samples=self.samples,
            reason=self.finished.reason.value,
            metrics=SentenceMetrics(
                ttfp_ms=_ms_or_none(report.ttfp_s),
                ttfa_ms=_ms_or_none(ttfa_s),
                rtf=None if metrics is None or metrics.rtf is None else round(metrics.rtf, 4),
                queue_ms=None if metrics is None else _ms(metrics.queue_s),
                chunks=0 if metrics is None else metrics.chunks,
                initial_chunk_frames=None if metrics is None else metrics.initial_chunk_frames,
                max_underrun_ms=_ms(report.max_underrun_s),
                underrun_count=report.underrun_count,
                continuity_ok=_verdict(report, self.utterance.settings),
            ),
            context_id=self.utterance.context_id,
        )


def _audible_after(ttfp_s: float | None, leading_silence_s: float | None) -> float | None:
    return None if ttfp_s is None or leading_silence_s is None else ttfp_s + leading_silence_s


def _verdict(report: ContinuityReport, settings: SessionSettings) -> bool | None:
    return report.continuity_ok(settings.continuity_threshold_s)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _ms_or_none(seconds: float | None) -> float | None:
    return None if seconds is None else _ms(seconds)
