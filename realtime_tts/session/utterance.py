"""One utterance and its sentences: what each has sent so far, and how its listener fared."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from realtime_tts.audio.encoder import Encoder, make_encoder
from realtime_tts.audio.playout import ContinuityReport, PlayoutLedger
from realtime_tts.engine.api import RequestFinished, Samples, SynthesisRequest
from realtime_tts.session.messages import (
    AudioDone,
    AudioStart,
    Continuity,
    SentenceMetrics,
    ServerError,
    SessionDone,
    Usage,
)
from realtime_tts.session.outputs import Send
from realtime_tts.session.sentences import Sentence, SentenceSplitter
from realtime_tts.session.settings import SessionSettings

AUDIBLE = 10 ** (-40 / 20)
"""The first sample above -40 dBFS counts as audible: what lies below is a voice's breath and a model's noise."""


@dataclass(frozen=True, slots=True)
class SendAudio:
    """One binary frame.  `duration_s` is what it holds of sound; `model_samples` the same at the model's rate."""

    job: "SentenceJob"
    data: bytes
    duration_s: float
    model_samples: int


@dataclass(frozen=True, slots=True)
class SendSentenceDone:
    """Becomes `audio.done` when its turn to be sent has come: its figures are those of what was sent before it."""

    job: "SentenceJob"


@dataclass(frozen=True, slots=True)
class SendUtteranceDone:
    """Becomes `session.done` when its turn to be sent has come."""

    utterance: "Utterance"


Sending: TypeAlias = Send | SendAudio | SendSentenceDone
"""What a sentence has sent."""


@dataclass(slots=True, eq=False)
class Utterance:
    """The text between two `input.done`, with the settings that were in force when it began."""

    index: int
    settings: SessionSettings
    splitter: SentenceSplitter
    began_s: float
    """When its first text came."""
    jobs: deque["SentenceJob"] = field(default_factory=deque)
    """Sentences not yet wholly passed on, in the order of hearing."""
    total_sentences: int = 0
    characters: int = 0
    complete: bool = False
    ledger: PlayoutLedger = field(default_factory=PlayoutLedger)
    ttfa_s: float | None = None

    def done_message(self) -> SessionDone:
        report = self.ledger.report(started_at_s=self.began_s)
        return SessionDone(
            total_sentences=self.total_sentences,
            utterance_index=self.index,
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
        )


@dataclass(slots=True, eq=False)
class SentenceJob:
    """One sentence on its way: waiting, with the engine, being sent, done."""

    index: int
    sentence: Sentence
    utterance: Utterance
    request: SynthesisRequest
    model_rate_hz: int
    closed_s: float
    """When its text was complete."""
    held: list[Samples] = field(default_factory=list)
    """Sound that waits for its turn."""
    finished: RequestFinished | None = None
    started: bool = False
    ledger: PlayoutLedger = field(default_factory=PlayoutLedger)
    wanted_s: float | None = None
    """When it could first have been sent: its text complete, and everything before it routed."""
    total_bytes: int = 0
    leading_silence_s: float | None = None
    model_samples: int = 0
    _encoder: Encoder | None = None
    """Made when the sentence is sent: a resampler holds 50 kB, and tens of thousands of sentences may be waiting."""
    _unsent_model_samples: int = 0
    _packed_samples: int = 0

    def pass_on(self) -> Iterator[Sending]:
        """Sends what is held; only called when it is this sentence's turn."""
        held, self.held = self.held, []
        for samples in held:
            yield from self._start()
            self._look_for_sound(samples)
            self.model_samples += len(samples)
            self._unsent_model_samples += len(samples)
            encoder = self._make_encoder()
            yield from self._packet(encoder, encoder.encode(samples))

    def end(self, session_id: str) -> Iterator[Sending]:
        """The rest of the sound, and how it ended: every `audio.start` has its `audio.done`."""
        assert self.finished is not None
        error = self.finished.error
        yield from self._start()
        # A whole file that lacks its end would look complete, so a failed one is not sent at all.
        if error is None or self.utterance.settings.stream_audio:
            encoder = self._make_encoder()
            yield from self._packet(encoder, encoder.flush())
        if error is not None:
            yield Send(
                ServerError(
                    code=error.code,
                    message=error.message,
                    fatal=False,
                    retryable=error.retryable,
                    session_id=session_id,
                    sentence_index=self.index,
                    retry_after_ms=None if error.retry_after_s is None else error.retry_after_s * 1000,
                )
            )
        yield SendSentenceDone(self)

    def on_sent(self, audio: SendAudio, now_s: float, hearing_until_s: float | None) -> None:
        """Moves the clocks of this sentence and of its utterance: `audio` went to the socket at `now_s`.

        Until `hearing_until_s` the listener hears what was sent before.
        """
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
        self.total_bytes += len(audio.data)
        if utterance.ttfa_s is None:
            ttfp_s = utterance.ledger.report(started_at_s=utterance.began_s).ttfp_s
            utterance.ttfa_s = _audible_after(ttfp_s, self.leading_silence_s)

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
            samples=self._packed_samples,
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
        )

    def _start(self) -> Iterator[Sending]:
        if self.started:
            return
        self.started = True
        audio_format = self.utterance.settings.format
        yield Send(
            AudioStart(
                sentence_index=self.index,
                sentence_text=self.sentence.text,
                format=audio_format.encoding.value,
                sample_rate=audio_format.sample_rate_hz,
                channels=audio_format.channels,
                utterance_index=self.utterance.index,
                text_span=(self.sentence.start, self.sentence.end),
            )
        )

    def _make_encoder(self) -> Encoder:
        if self._encoder is None:
            settings = self.utterance.settings
            self._encoder = make_encoder(settings.format, self.model_rate_hz, streaming=settings.stream_audio)
        return self._encoder

    def _packet(self, encoder: Encoder, data: bytes) -> Iterator[Sending]:
        if not data:
            return
        samples = encoder.samples_out - self._packed_samples
        self._packed_samples += samples
        model_samples, self._unsent_model_samples = self._unsent_model_samples, 0
        duration_s = self.utterance.settings.format.seconds(samples)
        yield SendAudio(self, data, duration_s, model_samples)

    def _look_for_sound(self, samples: Samples) -> None:
        if self.leading_silence_s is None and (loud := np.flatnonzero(np.abs(samples) > AUDIBLE)).size:
            self.leading_silence_s = (self.model_samples + int(loud[0])) / self.model_rate_hz


def _audible_after(ttfp_s: float | None, leading_silence_s: float | None) -> float | None:
    return None if ttfp_s is None or leading_silence_s is None else ttfp_s + leading_silence_s


def _verdict(report: ContinuityReport, settings: SessionSettings) -> bool | None:
    return report.continuity_ok(settings.continuity_threshold_s)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _ms_or_none(seconds: float | None) -> float | None:
    return None if seconds is None else _ms(seconds)
