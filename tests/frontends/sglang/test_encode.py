"""Encoding of SGLang-Omni's dialect: its messages, and none for events that it does not have."""

import json

import numpy as np

from realtime_tts.audio.format import AudioFormat
from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.engine.api import FinishReason
from realtime_tts.errors import InvalidConfig, QuotaExceeded, SynthesisFailed, UnknownVoice
from realtime_tts.frontends.sglang.encode import SGLangEncoder
from realtime_tts.session.events import (
    AudioChunk,
    AudioEnd,
    Closed,
    ConfigRejected,
    Expiring,
    Failed,
    SegmentDone,
    SentenceDone,
    SentenceFailed,
    SentenceStarted,
    SessionEvent,
    TextCommitted,
    Warned,
)

STARTED = SentenceStarted(0, 2, None, 0, "Hi.", (0, 3), AudioFormat.parse("pcm", 24_000), 24_000, True, False)
DONE = SentenceDone(0, 2, None, None, FinishReason.COMPLETE, False, PlayoutLedger().report(), None, None, None)


def encoded(encoder: SGLangEncoder, event: SessionEvent) -> object:
    (frame,) = encoder.encode(event)
    return json.loads(frame.data)


def test_a_sentence_has_an_id_and_its_bytes_are_counted() -> None:
    encoder = SGLangEncoder("s")
    assert encoded(encoder, STARTED) == {
        "type": "audio.start",
        "id": "s-2",
        "sentence_index": 2,
        "sentence_text": "Hi.",
        "format": "pcm",
        "sample_rate": 24_000,
    }
    (frame,) = encoder.encode(AudioChunk(0, 2, np.zeros(2400, np.float32), 0))
    assert (frame.is_binary, len(frame.data), frame.audio_s) == (True, 4800, 0.1)
    assert [*encoder.encode(AudioEnd(0, 2, failed=False))] == []
    done = {"type": "audio.done", "id": "s-2", "sentence_index": 2, "total_bytes": 4800, "error": False}
    assert encoded(encoder, DONE) == done


def test_a_segment_is_acknowledged_when_its_audio_is_done() -> None:
    encoder = SGLangEncoder("s")
    assert [*encoder.encode(TextCommitted(0, None, None, 0, 2, 20))] == []
    assert encoded(encoder, SegmentDone(0, None, 1, 2, 5)) == {
        "type": "input.committed",
        "session_id": "s",
        "segment_index": 1,
        "segment_sentences": 2,
        "total_sentences": 5,
    }


def test_errors_are_objects_with_a_type_and_the_field() -> None:
    encoder = SGLangEncoder("s")
    cases: list[tuple[SessionEvent, dict[str, object]]] = [
        (
            Failed(InvalidConfig("is wrong", param="speed")),
            {"error_type": "BadRequestError", "param": "speed", "code": 400, "message": "speed: is wrong"},
        ),
        (Failed(QuotaExceeded("too much")), {"error_type": "BadRequestError", "code": 429, "message": "too much"}),
        (SentenceFailed(0, 0, None, SynthesisFailed("no")), {"error_type": "server_error", "message": "no"}),
    ]
    for event, fields in cases:
        assert encoded(encoder, event) == {"type": "error", **fields}, event
    rejected = encoded(encoder, ConfigRejected(UnknownVoice("no such", param="voice"), refuses_text=True))
    assert isinstance(rejected, dict)
    assert "nothing of this `session.config` was applied" in rejected["message"]


def test_other_events_have_no_message() -> None:
    encoder = SGLangEncoder("s")
    for event in (Warned("nothing_to_speak", "no words", 0, None), Expiring("ttl", 30.0), Closed(1000, "done")):
        assert [*encoder.encode(event)] == [], event
