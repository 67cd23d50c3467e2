"""Records of requests: how they end, and when their audio is audible."""

import numpy as np
import pytest

from bench.request_record import RequestRecord, silent_samples
from bench.summary import Status
from realtime_tts.frontends.native.messages import (
    AnyServerMessage,
    AudioDone,
    AudioStart,
    Continuity,
    SentenceMetrics,
    ServerError,
    SessionDone,
    Usage,
)

RATE_HZ = 24_000
SECOND = (np.ones(RATE_HZ, "<i2") * 8000).tobytes()
SILENCE = bytes(RATE_HZ)  # half a second


def start() -> AudioStart:
    return AudioStart(
        sentence_index=0,
        sentence_text="Hello.",
        format="pcm",
        sample_rate=RATE_HZ,
        channels=1,
        utterance_index=0,
        text_span=(0, 6),
        frame_header=False,
        context_number=0,
    )


def done(total_bytes: int, *, error: bool = False) -> AudioDone:
    metrics = SentenceMetrics(
        ttfp_ms=1,
        ttfa_ms=1,
        rtf=0.1,
        queue_ms=0,
        chunks=1,
        initial_chunk_frames=1,
        max_underrun_ms=0,
        underrun_count=0,
        continuity_ok=True,
    )
    return AudioDone(
        sentence_index=0,
        total_bytes=total_bytes,
        error=error,
        utterance_index=0,
        duration_ms=0,
        samples=0,
        reason="error" if error else "complete",
        metrics=metrics,
    )


def session_done(ttfp_ms: float | None = 300) -> SessionDone:
    continuity = Continuity(
        ttfp_ms=ttfp_ms,
        ttfa_ms=ttfp_ms,
        audio_ms=2000,
        packets=2,
        underrun_count=0,
        underrun_total_ms=0,
        max_underrun_ms=40,
        text_starvation_ms=0,
        continuity_ok=True,
    )
    return SessionDone(
        total_sentences=1,
        utterance_index=0,
        reason="complete",
        usage=Usage(characters=6, audio_ms=0),
        continuity=continuity,
    )


def error(code: str) -> ServerError:
    return ServerError(code=code, message="why", fatal=True, retryable=True, session_id="s", retry_after_ms=1500.0)


def played(*events: tuple[float, AnyServerMessage | bytes]) -> RequestRecord:
    record = RequestRecord("Hello.", intended_s=10.0)
    record.on_sending(10.1)
    for at_s, event in events:
        if isinstance(event, bytes):
            record.on_audio(event, RATE_HZ, at_s)
        else:
            record.on_message(event, at_s)
    return record


def test_a_complete_utterance() -> None:
    record = played(
        (10.4, start()), (10.4, SECOND), (11.0, SECOND), (11.1, done(2 * len(SECOND))), (11.1, session_done())
    )
    outcome = record.outcome()
    assert (outcome.status, outcome.packets, outcome.audio_s) == (Status.OK, 2, 2.0)
    assert outcome.ttfp_s == pytest.approx(0.4)
    assert outcome.sent_s == pytest.approx(10.1)
    assert outcome.server is not None
    assert (outcome.server.ttfp_s, outcome.server.max_underrun_s) == (0.3, 0.04)
    assert record.playback_end_s == pytest.approx(12.4)


def test_the_first_audible_sample_counts_when_it_is_played() -> None:
    record = played((10.4, SILENCE), (10.5, SILENCE[:-2] + b"\xff\x7f"))
    record.interrupt(10.6)
    assert record.outcome().ttfa_s == pytest.approx(0.4 + 1.0 - 1 / RATE_HZ)


def test_silence_below_40_db_is_silence() -> None:
    assert silent_samples(np.array([0, 327, -328, 329], "<i2").tobytes()) == 3
    assert silent_samples(np.array([-32768], "<i2").tobytes()) == 0
    assert silent_samples(bytes(8)) is None
    assert silent_samples(b"") is None


def test_a_refusal_comes_before_any_audio() -> None:
    record = played((10.2, error("overloaded")))
    record.on_closed(1013, "overloaded", 10.3)
    assert (record.outcome().status, record.outcome().reason) == (Status.REFUSED, "why")
    assert record.outcome().retry_after_s == 1.5


def test_a_close_with_try_again_later_is_a_refusal() -> None:
    record = played()
    record.on_closed(1013, "overloaded", 10.3)
    assert record.outcome().status is Status.REFUSED


def test_a_refusal_in_mid_speech_is_a_failure() -> None:
    record = played((10.2, SECOND), (10.4, error("overloaded")))
    assert record.outcome().status is Status.FAILED
    assert record.outcome().continuity_ok is False


def test_any_other_error_is_a_failure_whatever_follows() -> None:
    for code in ("internal_error", "invalid_config", "synthesis_failed"):
        record = played((10.2, error(code)), (10.4, SECOND), (10.5, SECOND), (10.6, session_done()))
        assert (record.outcome().status, record.outcome().reason) == (Status.FAILED, f"{code}: why")


def test_a_failed_sentence_and_lost_bytes_are_failures() -> None:
    assert played((10.2, start()), (10.3, done(0, error=True))).status is Status.FAILED
    lost = played((10.2, start()), (10.3, SECOND), (10.4, done(len(SECOND) + 2)))
    assert (lost.status, lost.outcome().reason) == (Status.FAILED, "sentence 0: received 48000 of 48002 bytes")


def test_no_audio_at_all_is_a_failure() -> None:
    assert played((10.2, session_done(ttfp_ms=None))).outcome().status is Status.FAILED


def test_a_broken_connection_is_a_failure() -> None:
    record = played((10.2, SECOND))
    record.on_closed(None, "gone", 10.3)
    assert (record.status, record.outcome().reason) == (Status.FAILED, "gone")


def test_an_interrupted_request_is_unfinished_unless_it_has_ended() -> None:
    running, ended = played((10.2, SECOND)), played((10.2, SECOND), (10.3, SECOND), (10.4, session_done()))
    for record in (running, ended):
        record.interrupt(15.0)
    assert running.outcome().status is Status.UNFINISHED
    assert running.outcome().max_underrun_s == pytest.approx(3.8)
    assert ended.outcome().status is Status.OK
