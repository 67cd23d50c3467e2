"""Encoding: from session events to the frames of protocol.md."""

from collections.abc import Iterable
from dataclasses import dataclass

from realtime_tts.audio.encoder import Encoder, Packet, make_encoder
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.frontends.native import messages
from realtime_tts.frontends.native.frame_header import FrameHeader
from realtime_tts.frontends.native.messages import (
    PROTOCOL,
    AudioCancelled,
    AudioDone,
    AudioStart,
    AudioTimestamps,
    ConfigInForce,
    Continuity,
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
    WordTiming,
    encode,
)
from realtime_tts.session.events import (
    AnswerEvent,
    AudioChunk,
    AudioEnd,
    Cancelled,
    Closed,
    ConfigApplied,
    Expiring,
    Failed,
    InputCommitted,
    ResponseStarted,
    ResponseText,
    ResponseTextDone,
    SentenceDone,
    SentenceFailed,
    SentenceStarted,
    SessionEvent,
    SessionOpened,
    UtteranceDone,
    Warned,
    Words,
)
from realtime_tts.session.frontend import Frame
from realtime_tts.session.limits import SessionLimits
from realtime_tts.text.unicode import without_surrogates


@dataclass(slots=True)
class SentenceAudio:
    """The audio encoder of one sentence, with counts of what was sent."""

    started: SentenceStarted
    encoder: Encoder
    sample_rate_hz: int
    """The wire's."""
    frames: int = 0
    samples: int = 0
    total_bytes: int = 0
    """Without headers."""

    def encode(self, packets: list[Packet], *, ends: bool = False) -> Iterable[Frame]:
        """One frame each, counted when it is taken; if this `ends` the sentence, the last one is marked."""
        if len(packets) == 1:
            return (self._frame(packets[0], is_last=ends),)
        lasts = range(len(packets) - 1, -1, -1)
        return (self._frame(packet, is_last=ends and not left) for left, packet in zip(lasts, packets, strict=True))

    def _frame(self, packet: Packet, *, is_last: bool) -> Frame:
        data = packet.data
        if self.started.labelled:
            data = self._header(is_last=is_last) + data
        self.frames += 1
        self.samples += packet.samples
        self.total_bytes += len(packet.data)
        return Frame(data, True, packet.samples / self.sample_rate_hz)

    def _header(self, *, is_last: bool) -> bytes:
        started = self.started
        header = FrameHeader(started.context_number, started.sentence_index, self.frames, self.samples, last=is_last)
        return header.pack()


class NativeEncoder:
    """The frames of one session."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._sentences: dict[tuple[int, int], SentenceAudio] = {}

    def encode(self, event: SessionEvent) -> Iterable[Frame]:
        if isinstance(event, AudioChunk):
            audio = self._sentences[event.utterance_index, event.sentence_index]
            return audio.encode(audio.encoder.encode(event.samples))
        if isinstance(event, AudioEnd):
            return self._end(self._sentences[event.utterance_index, event.sentence_index], event.failed)
        if isinstance(event, Closed):
            return ()  # the close frame is the transport's
        return (Frame(encode(self.message(event))),)

    def _end(self, audio: SentenceAudio, failed: bool) -> Iterable[Frame]:
        if failed and not audio.started.streamed:
            return ()  # a file without its end would look complete
        packets = audio.encoder.flush()
        if audio.started.labelled and not packets:
            packets = [Packet(b"", 0)]  # carries the header that marks the end
        return audio.encode(packets, ends=True)

    def message(self, event: SessionEvent) -> ServerMessage:
        """The JSON message of an event that is not audio."""
        match event:
            case SentenceStarted():
                return self._start(event)
            case SentenceDone():
                return self._done(event)
            case UtteranceDone():
                return _utterance_done(event)
            case Words():
                return _words(event)
            case SentenceFailed():
                return self._error(event.error, event.context_id, event.utterance_index, event.sentence_index)
            case Failed(error=error, context_id=context_id):
                return self._error(error, context_id)
            case InputCommitted() | ResponseStarted() | ResponseText() | ResponseTextDone():
                return _of_answer(event)
            case Cancelled():
                return _cancelled(event)
            case SessionOpened():
                return _created(event)
            case ConfigApplied():
                return SessionUpdated(config=config_in_force(event), ignored=event.ignored)
            case Warned() | Expiring():
                return _notice(event)
        raise AssertionError(f"{type(event).__name__} has no message")

    def _start(self, event: SentenceStarted) -> AudioStart:
        encoder = make_encoder(event.audio_format, event.sample_rate_hz, streaming=event.streamed)
        self._sentences[event.utterance_index, event.sentence_index] = SentenceAudio(
            event, encoder, event.audio_format.sample_rate_hz
        )
        return AudioStart(
            sentence_index=event.sentence_index,
            sentence_text=event.text,
            format=event.audio_format.encoding.value,
            sample_rate=event.audio_format.sample_rate_hz,
            channels=event.audio_format.channels,
            utterance_index=event.utterance_index,
            text_span=event.text_span,
            frame_header=event.labelled,
            context_number=event.context_number,
            context_id=event.context_id,
            pre_skip=encoder.pre_skip_samples or None,
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

    def _error(
        self,
        error: RealtimeTTSError,
        context_id: str | None,
        utterance_index: int | None = None,
        sentence_index: int | None = None,
    ) -> ServerError:
        message = error_message(error, self._session_id, context_id)
        if sentence_index is None:
            return message
        return ServerError(
            code=message.code,
            message=message.message,
            fatal=False,  # of one sentence: the session continues
            retryable=message.retryable,
            session_id=message.session_id,
            context_id=context_id,
            utterance_index=utterance_index,
            sentence_index=sentence_index,
            retry_after_ms=message.retry_after_ms,
        )


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
        frame_header=settings.frame_header,
        continuity_threshold_ms=settings.continuity_threshold_s * 1000,
        on_new_context=settings.on_new_context,
        modalities=tuple(sorted(settings.modalities)) if event.answers else None,
        input_sample_rate=settings.input_rate_hz or event.input_rate_hz,
    )


def _words(event: Words) -> AudioTimestamps:
    return AudioTimestamps(
        sentence_index=event.sentence_index,
        utterance_index=event.utterance_index,
        status=event.status,
        words=tuple(
            WordTiming(word=word.text, start_ms=_ms(word.start_s), end_ms=_ms(word.end_s), text_span=word.text_span)
            for word in event.words
        ),
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
        case InputCommitted(utterance_index=index, audio_s=audio_s, context_id=context_id):
            return messages.InputCommitted(utterance_index=index, audio_ms=_ms(audio_s), context_id=context_id)
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
        reason="cancelled" if event.cancelled else "complete",
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
