"""One utterance and its sentences: what each has sent so far, how its listener fared, and what was heard of it."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from realtime_tts.audio.encoder import Encoder, Packet, make_encoder
from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.engine.api import FinishReason, RequestFinished, Samples, SynthesisRequest, Word
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.session.framing import FrameHeader
from realtime_tts.session.settings import SessionSettings
from realtime_tts.text.cleaner import TextCleaner
from realtime_tts.text.offsets import AlignedText, OffsetMap
from realtime_tts.text.splitter import Sentence, SentenceSplitter

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
    early: "SentenceJob | None" = None
    """The sentence that is spoken although its end has not come."""
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


@dataclass(slots=True, eq=False)
class SentenceJob:
    """One sentence on its way: waiting, with the engine, being sent, done."""

    index: int
    sentence: Sentence
    """Its offsets are those of the text as cleaned."""
    offsets: OffsetMap
    """For each of these characters, where it came from in the text as received."""
    respelled: AlignedText
    utterance: Utterance
    request: SynthesisRequest
    model_rate_hz: int
    tempo: float
    opened_s: float
    """When so much of its text had come that it could be spoken."""
    closed_s: float
    """When its text was complete; infinite before."""
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
    told_text: str | None = None
    """What its start said of it."""
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
            for packet in self._make_encoder().encode(each):
                yield self._audio(packet)

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
        starved = playout_end_s is not None and self.closed_s > playout_end_s
        own_end_s = self.ledger.playout_end_s
        self.ledger.record(
            arrived_at_s=now_s,
            duration_s=audio.duration_s,
            text_starved=own_end_s is not None and self.closed_s > own_end_s,
            hearing_until_s=hearing_until_s,
        )
        utterance.ledger.record(
            arrived_at_s=now_s,
            duration_s=audio.duration_s,
            text_starved=starved,
            hearing_until_s=hearing_until_s,
        )
        if utterance.ttfa_s is None:
            ttfp_s = utterance.ledger.report(started_at_s=utterance.began_s).ttfp_s
            utterance.ttfa_s = audible_after(ttfp_s, self.leading_silence_s)
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
    def pre_skip_samples(self) -> int:
        """Decoded samples to be dropped at the start."""
        return self._make_encoder().pre_skip_samples

    @property
    def text_span(self) -> tuple[int, int]:
        """In the text of the utterance as received."""
        return self.source(0), self.source(len(self.sentence.text))

    def source(self, offset: int) -> int:
        """Where the character at `offset` of the sentence came from in the text as received."""
        # A surrogate pair received as two characters is one of the sentence, so its end may come early.
        at_end = offset >= len(self.sentence.text)
        return self.offsets.source_end(self.offsets.length) if at_end else self.offsets.source(offset)

    def word_span(self, word: Word) -> tuple[int, int]:
        """A word of the request, as characters of the sentence."""
        return self.respelled.source(word.start), self.respelled.source_end(word.end)


def audible_after(ttfp_s: float | None, leading_silence_s: float | None) -> float | None:
    """Time to first audible sample: that to the first packet, and the silence it begins with."""
    return None if ttfp_s is None or leading_silence_s is None else ttfp_s + leading_silence_s
