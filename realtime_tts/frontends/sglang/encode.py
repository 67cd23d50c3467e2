"""Encoding of SGLang-Omni's dialect: session events to its messages, and audio to binary frames."""

from collections.abc import Iterable

import msgspec

from realtime_tts.errors import RealtimeTTSError
from realtime_tts.frontends.native.encode import error_text
from realtime_tts.frontends.native.sentence_audio import SentenceAudio, sentence_audio
from realtime_tts.frontends.sglang.messages import (
    AudioDone,
    AudioStart,
    Error,
    InputCommitted,
    Message,
    SessionConfigured,
    SessionDone,
)
from realtime_tts.session.events import (
    AudioChunk,
    AudioEnd,
    ConfigApplied,
    Failed,
    SegmentDone,
    SentenceDone,
    SentenceFailed,
    SentenceStarted,
    SessionEvent,
    UtteranceDone,
)
from realtime_tts.session.frontend import Frame

_encode = msgspec.json.Encoder().encode


class SGLangEncoder:
    """The frames of one session.  It has one utterance, so sentences are numbered through."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._sentences: dict[int, SentenceAudio] = {}

    def encode(self, event: SessionEvent) -> Iterable[Frame]:
        if isinstance(event, AudioChunk):
            return self._sentences[event.sentence_index].encode(event.samples)
        if isinstance(event, AudioEnd):
            return self._sentences[event.sentence_index].end(failed=event.failed)
        message = self.message(event)
        return () if message is None else (Frame(_encode(message)),)

    def message(self, event: SessionEvent) -> Message | None:
        """The JSON message of an event, if the dialect has one."""
        match event:
            case ConfigApplied():
                return self._configured(event)
            case SentenceStarted():
                return self._start(event)
            case SentenceDone():
                return self._done(event)
            case SegmentDone():
                return InputCommitted(
                    session_id=self._session_id,
                    segment_index=event.segment_index,
                    segment_sentences=event.sentences,
                    total_sentences=event.total_sentences,
                )
            case UtteranceDone():
                return SessionDone(session_id=self._session_id, total_sentences=event.total_sentences)
            case SentenceFailed() | Failed():
                return _error(event.error, error_text(event))
        return None

    def _configured(self, event: ConfigApplied) -> SessionConfigured:
        settings = event.settings
        return SessionConfigured(
            session_id=self._session_id,
            response_format=settings.audio_format.encoding.value,
            stream_audio=settings.stream_audio,
            split_granularity=settings.split_granularity,
            ignored=event.ignored,
        )

    def _start(self, event: SentenceStarted) -> AudioStart:
        self._sentences[event.sentence_index] = sentence_audio(event)
        return AudioStart(
            id=self._id(event.sentence_index),
            sentence_index=event.sentence_index,
            sentence_text=event.text,
            format=event.audio_format.encoding.value,
            sample_rate=event.audio_format.sample_rate_hz,
        )

    def _done(self, event: SentenceDone) -> AudioDone:
        return AudioDone(
            id=self._id(event.sentence_index),
            sentence_index=event.sentence_index,
            total_bytes=self._sentences.pop(event.sentence_index).total_bytes,
            error=event.failed,
            sentence_text=event.full_text,
        )

    def _id(self, sentence_index: int) -> str:
        return f"{self._session_id}-{sentence_index}"


def _error(error: RealtimeTTSError, text: str) -> Error:
    if error.http_status >= 500:
        return Error(message=text, error_type="server_error", param=error.param)
    return Error(message=text, error_type="BadRequestError", param=error.param, code=error.http_status)
