"""Encoding: from session events to the frames of protocol.md."""

from collections.abc import Iterable

from msgspec import structs

from realtime_tts.errors import RealtimeTTSError
from realtime_tts.frontends.native import messages
from realtime_tts.frontends.native.messages import (
    AUDIO_CHUNK,
    AUDIO_TIMESTAMPS,
    PROTOCOL,
    AudioCancelled,
    AudioDone,
    AudioStart,
    AudioTimestamps,
    ConfigInForce,
    Continuity,
    InputCommitted,
    Limits,
    SentenceMetrics,
    ServerError,
    ServerMessage,
    ServerWarning,
    SessionCreated,
    SessionDone,
    SessionExpiring,
    SessionUpdated,
    Usage,
    encode,
)
from realtime_tts.frontends.native.sentence_audio import SentenceAudio, SentenceChunks, sentence_audio, word_timing
from realtime_tts.session.events import (
    AnswerEvent,
    AudioChunk,
    AudioEnd,
    Cancelled,
    Closed,
    ConfigApplied,
    ConfigRejected,
    Expiring,
    Failed,
    ResponseStarted,
    ResponseText,
    ResponseTextDone,
    SegmentDone,
    SentenceDone,
    SentenceFailed,
    SentenceStarted,
    SessionEvent,
    SessionOpened,
    TextCommitted,
    TurnCommitted,
    UtteranceDone,
    Warned,
    Words,
)
from realtime_tts.session.frontend import Frame
from realtime_tts.session.limits import SessionLimits
from realtime_tts.text.unicode import without_surrogates


class NativeEncoder:
    """The frames of one session."""

    __slots__ = ("_sentences", "_session_id")

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._sentences: dict[tuple[int, int], SentenceAudio] = {}

    def encode(self, event: SessionEvent) -> Iterable[Frame]:
        if isinstance(event, AudioChunk):
            return self._sentences[event.utterance_index, event.sentence_index].encode(event.samples)
        if isinstance(event, AudioEnd):
            return self._sentences[event.utterance_index, event.sentence_index].end(failed=event.failed)
        message = self.message(event)
        return () if message is None else (Frame(encode(message)),)

    def message(self, event: SessionEvent) -> ServerMessage | None:
        """The JSON message of an event that is not audio, if it has one."""
        match event:
            case SentenceStarted():
                return self._start(event)
            case SentenceDone():
                return self._done(event)
            case Words():
                return self._words(event)
            case SentenceFailed() | Failed():
                return self._failed(event)
        return _session_message(event)

    def _start(self, event: SentenceStarted) -> AudioStart:
        audio = self._sentences[event.utterance_index, event.sentence_index] = sentence_audio(event)
        return AudioStart(
            sentence_index=event.sentence_index,
            sentence_text=event.text,
            format=event.audio_format.encoding.value,
            sample_rate=event.audio_format.sample_rate_hz,
            channels=event.audio_format.channels,
            utterance_index=event.utterance_index,
            text_span=event.text_span,
            frame_header=event.labelled and not event.timestamps_in_audio,
            context_number=event.context_number,
            context_id=event.context_id,
            pre_skip=audio.encoder.pre_skip_samples or None,
            word_timestamps=event.timestamps_in_audio or None,
        )

    def _done(self, event: SentenceDone) -> AudioDone:
        audio = self._sentences.pop((event.utterance_index, event.sentence_index))
        report, metrics = event.report, event.metrics
        return AudioDone(
            sentence_index=event.sentence_index,
            total_bytes=audio.total_bytes,
            error=event.failed,
            utterance_index=event.utterance_index,
            duration_ms=_ms(report.audio_s),
            samples=audio.samples,
            reason=event.reason.value,
            metrics=SentenceMetrics(
                ttfp_ms=_ms_or_none(report.ttfp_s),
                ttfa_ms=_ms_or_none(event.ttfa_s),
                rtf=None if metrics is None or metrics.rtf is None else round(metrics.rtf, 4),
                queue_ms=None if metrics is None else _ms(metrics.queue_s),
                chunks=0 if metrics is None else metrics.chunks,
                initial_chunk_frames=None if metrics is None else metrics.initial_chunk_frames,
                max_underrun_ms=_ms(report.max_underrun_s),
                underrun_count=report.underrun_count,
                continuity_ok=event.continuity_ok,
            ),
            context_id=event.context_id,
            sentence_text=event.full_text,
        )

    def _words(self, event: Words) -> AudioTimestamps | None:
        audio = self._sentences[event.utterance_index, event.sentence_index]
        if isinstance(audio, SentenceChunks):
            audio.add_words(event)
            return None
        return AudioTimestamps(
            sentence_index=event.sentence_index,
            utterance_index=event.utterance_index,
            status=event.status,
            words=tuple(map(word_timing, event.words)),
            context_id=event.context_id,
        )

    def _failed(self, event: SentenceFailed | Failed) -> ServerError:
        message = structs.replace(
            error_message(event.error, self._session_id, event.context_id), message=error_text(event)
        )
        if isinstance(event, Failed):
            return message
        return structs.replace(
            message,
            fatal=False,  # of one sentence: the session continues
            utterance_index=event.utterance_index,
            sentence_index=event.sentence_index,
        )


def error_text(event: SentenceFailed | Failed) -> str:
    """The message of the error, and the effect on a config."""
    if not isinstance(event, ConfigRejected):
        return event.error.message
    refusal = ", and text is refused until one is accepted" if event.refuses_text else ""
    return f"{event.error.message}; nothing of this `session.config` was applied{refusal}"


def _session_message(event: SessionEvent) -> ServerMessage | None:
    match event:
        case UtteranceDone():
            return _utterance_done(event)
        case TextCommitted():
            return _committed(event)
        case TurnCommitted() | ResponseStarted() | ResponseText() | ResponseTextDone():
            return _of_answer(event)
        case Cancelled():
            return _cancelled(event)
        case SessionOpened():
            return _created(event)
        case ConfigApplied():
            return SessionUpdated(config=config_in_force(event), ignored=event.ignored)
        case Warned() | Expiring():
            return _notice(event)
        case SegmentDone() | Closed():
            return None  # a commit was acknowledged at once, and the close frame is the transport's
    raise AssertionError(f"{type(event).__name__} has no message")


def error_message(error: RealtimeTTSError, session_id: str, context_id: str | None = None) -> ServerError:
    """The WebSocket form of an error; there is no other."""
    return ServerError(
        code=error.code,
        message=error.message,
        fatal=error.close_code is not None,
        retryable=error.retryable,
        session_id=session_id,
        context_id=context_id,
        retry_after_ms=None if error.retry_after_s is None else error.retry_after_s * 1000,
        param=error.param,
    )


def _created(event: SessionOpened) -> SessionCreated:
    return SessionCreated(
        session_id=event.session_id,
        protocol=PROTOCOL,
        model=event.model,
        voices=event.voices,
        sample_rate=event.sample_rate_hz,
        limits=_limits(event.limits),
        expires_at=event.expires_at_unix_s,
    )


def _limits(limits: SessionLimits) -> Limits:
    return Limits(
        max_message_bytes=limits.max_message_bytes,
        max_pending_chars=limits.max_pending_chars,
        max_utterance_chars=limits.max_utterance_chars,
        max_sentence_chars=limits.max_sentence_chars,
        max_contexts=limits.max_contexts,
        write_timeout_s=limits.write_timeout_s,
        context_idle_s=limits.context_idle_s,
        idle_s=limits.idle_s,
        session_s=limits.session_s,
    )


def config_in_force(event: ConfigApplied) -> ConfigInForce:
    settings = event.settings
    return ConfigInForce(
        model=event.model,
        voice=settings.voice,
        task_type=event.task_type,
        language=settings.language,
        instructions=settings.instructions,
        ref_audio=None if settings.reference is None else settings.reference.key,
        ref_text=settings.ref_text,
        x_vector_only_mode=settings.x_vector_only_mode,
        speaker_embedding=None if settings.speaker_embedding is None else len(settings.speaker_embedding),
        response_format=settings.audio_format.encoding.value,
        sample_rate=settings.audio_format.sample_rate_hz,
        stream_audio=settings.stream_audio,
        speed=settings.speed,
        split_granularity=settings.split_granularity,
        max_buffer_delay_ms=settings.max_buffer_delay_s * 1000,
        text_filters=tuple(sorted(settings.text_filters)),
        pronunciations=dict(settings.pronunciations.words),
        initial_codec_chunk_frames=settings.initial_codec_chunk_frames,
        max_new_tokens=settings.sampling.max_new_tokens,
        seed=settings.sampling.seed,
        temperature=settings.sampling.temperature,
        top_k=settings.sampling.top_k,
        top_p=settings.sampling.top_p,
        repetition_penalty=settings.sampling.repetition_penalty,
        word_timestamps=settings.word_timestamps,
        timestamps_as=AUDIO_CHUNK if settings.timestamps_in_audio else AUDIO_TIMESTAMPS,
        frame_header=settings.frame_header,
        continuity_threshold_ms=settings.continuity_threshold_s * 1000,
        on_new_context=settings.on_new_context,
        modalities=tuple(sorted(settings.modalities)) if event.answers else None,
        input_sample_rate=settings.input_rate_hz or event.input_rate_hz,
    )


def _committed(event: TextCommitted) -> InputCommitted:
    return InputCommitted(
        sentence_index=event.sentence_index,
        sentences=event.sentences,
        chars_committed=event.characters,
        utterance_index=event.utterance_index,
        commit_id=event.commit_id,
        context_id=event.context_id,
    )


def _notice(event: Warned | Expiring) -> ServerMessage:
    if isinstance(event, Expiring):
        return SessionExpiring(reason=event.reason, deadline_ms=event.deadline_s * 1000)
    return ServerWarning(
        code=event.code, message=event.message, utterance_index=event.utterance_index, context_id=event.context_id
    )


def _of_answer(event: AnswerEvent) -> ServerMessage:
    match event:
        case TurnCommitted(utterance_index=index, audio_s=audio_s, context_id=context_id):
            return messages.TurnCommitted(utterance_index=index, audio_ms=_ms(audio_s), context_id=context_id)
        case ResponseStarted(utterance_index=index, response_id=response_id, context_id=context_id):
            return messages.ResponseStart(utterance_index=index, response_id=response_id, context_id=context_id)
        case ResponseText(utterance_index=index, delta=delta, context_id=context_id):
            return messages.ResponseTextDelta(utterance_index=index, delta=delta, context_id=context_id)
        case ResponseTextDone(utterance_index=index, text=text, reason=reason, context_id=context_id):
            return messages.ResponseTextDone(
                utterance_index=index, text=text, reason=reason.value, context_id=context_id
            )


def _utterance_done(event: UtteranceDone) -> SessionDone:
    report = event.report
    return SessionDone(
        total_sentences=event.total_sentences,
        utterance_index=event.utterance_index,
        reason=event.reason,
        usage=Usage(
            characters=event.characters,
            audio_ms=_ms(report.audio_s),
            input_tokens=event.input_tokens,
            output_tokens=event.output_tokens,
        ),
        continuity=Continuity(
            ttfp_ms=_ms_or_none(report.ttfp_s),
            ttfa_ms=_ms_or_none(event.ttfa_s),
            audio_ms=_ms(report.audio_s),
            packets=report.packets,
            underrun_count=report.underrun_count,
            underrun_total_ms=_ms(report.underrun_total_s),
            max_underrun_ms=_ms(report.max_underrun_s),
            text_starvation_ms=_ms(report.text_starvation_s),
            continuity_ok=event.continuity_ok,
        ),
        context_id=event.context_id,
        outcomes=tuple(outcome.value for outcome in event.outcomes),
    )


def _cancelled(event: Cancelled) -> AudioCancelled:
    return AudioCancelled(
        sentence_index=event.sentence_index,
        utterance_index=event.utterance_index,
        text_spoken=without_surrogates(event.text_spoken),
        text_remaining=without_surrogates(event.text_remaining),
        audio_sent_ms=_ms(event.audio_sent_s),
        audio_played_ms=_ms(event.audio_played_s),
        source=event.source,
        context_id=event.context_id,
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _ms_or_none(seconds: float | None) -> float | None:
    return None if seconds is None else _ms(seconds)
