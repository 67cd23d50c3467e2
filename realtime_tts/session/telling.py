"""What is told: from the state of a sentence, an utterance or a barge-in to the message on the wire.

Made when its turn to be sent has come: its figures are those of what was sent before it.
"""

from typing import TypeAlias

from realtime_tts.audio.playout import ContinuityReport
from realtime_tts.engine.api import Word
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.session.context import Cancellation
from realtime_tts.session.dialogue import SendCancelled
from realtime_tts.session.messages import (
    AnyServerMessage,
    AudioCancelled,
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
from realtime_tts.session.outputs import Send
from realtime_tts.session.settings import SessionSettings
from realtime_tts.session.utterance import (
    SendFailure,
    SendSentenceDone,
    SendStart,
    SendUtteranceDone,
    SendWords,
    SentenceJob,
    Utterance,
    audible_after,
)

Told: TypeAlias = Send | SendStart | SendWords | SendFailure | SendSentenceDone | SendUtteranceDone | SendCancelled
"""All that goes out as text."""


def message_of(output: Told, session_id: str) -> AnyServerMessage:
    match output:
        case Send(message=message):
            return message
        case SendStart(job=job):
            return _start(job)
        case SendWords(job=job, words=words, status=status):
            return _words(job, words, status)
        case SendFailure(job=job, error=error):
            return _failure(job, error, session_id)
        case SendSentenceDone(job=job):
            return sentence_done(job)
        case SendUtteranceDone(utterance=utterance):
            return utterance_done(utterance)
        case SendCancelled(cancellation=cancellation):
            return _cancelled(cancellation)


def _start(job: SentenceJob) -> AudioStart:
    utterance = job.utterance
    job.told_text = job.sentence.text
    audio_format = utterance.settings.format
    return AudioStart(
        sentence_index=job.index,
        sentence_text=job.sentence.text,
        format=audio_format.encoding.value,
        sample_rate=audio_format.sample_rate_hz,
        channels=audio_format.channels,
        utterance_index=utterance.index,
        text_span=job.text_span,
        frame_header=job.framed,
        context_number=utterance.context_number,
        context_id=utterance.context_id,
        pre_skip=job.pre_skip_samples or None,
    )


def _words(job: SentenceJob, words: tuple[Word, ...], status: str) -> AudioTimestamps:
    return AudioTimestamps(
        sentence_index=job.index,
        utterance_index=job.utterance.index,
        status=status,
        words=tuple(_timing(job, word) for word in words),
        context_id=job.utterance.context_id,
    )


def _timing(job: SentenceJob, word: Word) -> WordTiming:
    start, end = job.word_span(word)
    return WordTiming(
        word=sendable(job.sentence.text[start:end]),
        start_ms=_ms(word.start_s / job.tempo),
        end_ms=_ms(word.end_s / job.tempo),
        text_span=(job.source(start), job.source(end)),
    )


def _failure(job: SentenceJob, error: RealtimeTTSError, session_id: str) -> ServerError:
    return ServerError(
        code=error.code,
        message=error.message,
        fatal=False,
        retryable=error.retryable,
        session_id=session_id,
        context_id=job.utterance.context_id,
        utterance_index=job.utterance.index,
        sentence_index=job.index,
        retry_after_ms=None if error.retry_after_s is None else error.retry_after_s * 1000,
    )


def sentence_done(job: SentenceJob) -> AudioDone:
    assert job.finished is not None, "it is told once it has ended"
    report = job.ledger.report(started_at_s=job.wanted_s)
    metrics = job.finished.metrics
    ttfa_s = audible_after(report.ttfp_s, job.leading_silence_s)
    return AudioDone(
        sentence_index=job.index,
        total_bytes=job.total_bytes,
        error=job.finished.error is not None,
        utterance_index=job.utterance.index,
        duration_ms=_ms(report.audio_s),
        samples=job.samples,
        reason=job.finished.reason.value,
        metrics=SentenceMetrics(
            ttfp_ms=_ms_or_none(report.ttfp_s),
            ttfa_ms=_ms_or_none(ttfa_s),
            rtf=None if metrics is None or metrics.rtf is None else round(metrics.rtf, 4),
            queue_ms=None if metrics is None else _ms(metrics.queue_s),
            chunks=0 if metrics is None else metrics.chunks,
            initial_chunk_frames=None if metrics is None else metrics.initial_chunk_frames,
            max_underrun_ms=_ms(report.max_underrun_s),
            underrun_count=report.underrun_count,
            continuity_ok=_verdict(report, job.utterance.settings),
        ),
        context_id=job.utterance.context_id,
        sentence_text=job.sentence.text if job.told_text not in (None, job.sentence.text) else None,
    )


def utterance_done(utterance: Utterance) -> SessionDone:
    report = utterance.ledger.report(started_at_s=utterance.began_s)
    begun = sum(job.start_sent for job in utterance.begun)
    return SessionDone(
        total_sentences=begun if utterance.cancelled else utterance.total_sentences,
        utterance_index=utterance.index,
        reason="cancelled" if utterance.cancelled else "complete",
        usage=Usage(characters=utterance.characters, audio_ms=_ms(report.audio_s)),
        continuity=Continuity(
            ttfp_ms=_ms_or_none(report.ttfp_s),
            ttfa_ms=_ms_or_none(utterance.ttfa_s),
            audio_ms=_ms(report.audio_s),
            packets=report.packets,
            underrun_count=report.underrun_count,
            underrun_total_ms=_ms(report.underrun_total_s),
            max_underrun_ms=_ms(report.max_underrun_s),
            text_starvation_ms=_ms(report.text_starvation_s),
            continuity_ok=_verdict(report, utterance.settings),
        ),
        context_id=utterance.context_id,
    )


def _cancelled(cancellation: Cancellation) -> AudioCancelled:
    heard = cancellation.heard
    return AudioCancelled(
        sentence_index=heard.sentence_index,
        utterance_index=heard.utterance_index,
        text_spoken=sendable(heard.text_spoken),
        text_remaining=sendable(heard.text_remaining),
        audio_sent_ms=_ms(cancellation.audio_sent_s),
        audio_played_ms=_ms(cancellation.audio_played_s),
        source=cancellation.source,
        context_id=cancellation.context_id,
    )


def _verdict(report: ContinuityReport, settings: SessionSettings) -> bool | None:
    return report.continuity_ok(settings.continuity_threshold_s)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _ms_or_none(seconds: float | None) -> float | None:
    return None if seconds is None else _ms(seconds)
