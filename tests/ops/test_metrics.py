"""Every figure that the protocol promises, right, bounded, and true of a real session."""

import asyncio
import re
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from realtime_tts.clock import VirtualClock
from realtime_tts.engine.api import EngineStatus, Submit
from realtime_tts.engine.executor import Launch
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import StageInput
from realtime_tts.ops.metrics import CONTENT_TYPE, MAX_REASONS, THRESHOLDS_MS, Metrics
from realtime_tts.session.messages import AudioDone, Continuity, SentenceMetrics, SessionDone, Usage
from tests.fakes import make_engine, request, run_to_end, until

PROMISED = [
    "audio_ttfp_seconds",
    "audio_rtf",
    "audio_duration_seconds",
    "audio_underrun_seconds",
    "audio_continuity_ok_total",
    "audio_skipped_requests_total",
    "sessions_active",
    "sessions_rejected_total",
    "cancel_latency_seconds",
    "wasted_audio_seconds",
    "send_queue_ms",
    "stage_batch_size",
    "stage_step_seconds",
    "stage_queue_depth",
    "event_loop_lag_seconds",
]


def samples(metrics: Metrics) -> dict[str, float]:
    """`name{label="value"}` -> value, as a scraper reads them."""
    found = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            found[sample.name.removeprefix("realtime_tts_") + shown(sample.labels)] = sample.value
    return found


def shown(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{name}={value}" for name, value in labels.items()) + "}" if labels else ""


def sentence(reason: str = "complete", *, rtf: float | None = 0.2, samples: int = 48_000) -> AudioDone:
    return AudioDone(
        sentence_index=0,
        total_bytes=2 * samples,
        error=reason == "error",
        utterance_index=0,
        duration_ms=samples / 24,
        samples=samples,
        reason=reason,
        metrics=SentenceMetrics(
            ttfp_ms=80.0,
            ttfa_ms=90.0,
            rtf=rtf,
            queue_ms=1.0,
            chunks=3,
            initial_chunk_frames=2,
            max_underrun_ms=0.0,
            underrun_count=0,
            continuity_ok=True,
        ),
    )


def utterance(
    *, packets: int = 5, underrun_ms: float = 0.0, ttfp_ms: float | None = 80.0, sentences: int = 1, reason: str = ""
) -> SessionDone:
    return SessionDone(
        total_sentences=sentences,
        utterance_index=0,
        reason=reason or "complete",
        usage=Usage(characters=12, audio_ms=2000.0),
        continuity=Continuity(
            ttfp_ms=ttfp_ms,
            ttfa_ms=ttfp_ms,
            audio_ms=2000.0,
            packets=packets,
            underrun_count=0,
            underrun_total_ms=underrun_ms,
            max_underrun_ms=underrun_ms,
            text_starvation_ms=0.0,
            continuity_ok=True,
        ),
    )


def launch(rows: int) -> Launch:
    return Launch("talker", "talker", tuple(StageInput(request(number)) for number in range(rows)))


def test_every_promised_metric_is_there_under_our_prefix() -> None:
    text = Metrics().text().decode()
    for name in PROMISED:
        assert re.search(rf"^# TYPE realtime_tts_{name}\b", text, re.MULTILINE), name
    assert CONTENT_TYPE.startswith("text/plain")


def test_two_servers_in_one_process_count_apart() -> None:
    one, two = Metrics(), Metrics()
    one.rejected("overloaded")
    assert "sessions_rejected_total{reason=overloaded}" in samples(one)
    assert "sessions_rejected_total{reason=overloaded}" not in samples(two)


def test_sessions_are_counted_as_the_server_has_them() -> None:
    metrics = Metrics()
    sessions = ["a", "b", "c"]
    metrics.watch_sessions(lambda: len(sessions))
    assert samples(metrics)["sessions_active"] == 3
    sessions.pop()
    metrics.rejected("overloaded")
    metrics.rejected("overloaded")
    found = samples(metrics)
    assert found["sessions_active"] == 2
    assert found["sessions_rejected_total{reason=overloaded}"] == 2


@given(st.lists(st.text(max_size=60), max_size=200))
@settings(deadline=None, max_examples=30)
def test_no_list_of_reasons_makes_a_label_unbounded(reasons: list[str]) -> None:
    metrics = Metrics()
    for reason in reasons:
        metrics.rejected(reason)
    for number in range(100):
        metrics.rejected(f"reason_{number}")
    counted = {name: value for name, value in samples(metrics).items() if name.startswith("sessions_rejected_total{")}
    assert len(counted) <= MAX_REASONS + 1
    assert all(re.fullmatch(r"sessions_rejected_total\{reason=[a-z0-9_]+\}", name) for name in counted)
    assert sum(counted.values()) == len(reasons) + 100


def test_a_sentence_counts_in_duration_and_work() -> None:
    metrics = Metrics()
    metrics.sentence_done(sentence())
    found = samples(metrics)
    assert found["audio_duration_seconds_sum"] == 2.0
    assert found["audio_rtf_sum"] == 0.2
    assert found["sentences_total{reason=complete}"] == 1


def test_a_sentence_without_sound_has_no_duration_and_one_cut_short_no_rtf() -> None:
    metrics = Metrics()
    metrics.sentence_done(sentence("error", rtf=None, samples=0))
    metrics.sentence_done(sentence("cancelled"))
    found = samples(metrics)
    assert found["audio_duration_seconds_count"] == 1
    assert found["audio_rtf_count"] == 0
    assert found["sentences_total{reason=error}"] == found["sentences_total{reason=cancelled}"] == 1


@given(st.lists(st.floats(0, 20_000), max_size=20))
@settings(deadline=None, max_examples=50)
def test_continuity_is_counted_for_each_threshold(underruns_ms: list[float]) -> None:
    metrics = Metrics()
    for underrun_ms in underruns_ms:
        metrics.utterance_done(utterance(underrun_ms=underrun_ms), 12_345.0)
    found = samples(metrics)
    for limit in THRESHOLDS_MS:
        within = sum(underrun_ms <= limit for underrun_ms in underruns_ms)
        assert found[f"audio_continuity_ok_total{{threshold_ms={limit}}}"] == within
    # The histogram has the 100 ms of the published figure as a boundary, and agrees.
    assert found["audio_underrun_seconds_bucket{le=0.1}"] == sum(ms / 1000 <= 0.1 for ms in underruns_ms)
    assert found["audio_underrun_seconds_count"] == len(underruns_ms)
    assert not any("12345" in name for name in found)


@pytest.mark.parametrize(
    ("done", "reason"),
    [
        (utterance(packets=1), "single_packet"),
        (utterance(packets=0, ttfp_ms=None), "no_audio"),
        (utterance(packets=0, ttfp_ms=None, sentences=0), "nothing_to_speak"),
        (utterance(packets=0, ttfp_ms=None, reason="cancelled"), "cancelled"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_has_no_continuity_is_never_counted_as_continuous(done: SessionDone, reason: str) -> None:
    metrics = Metrics()
    metrics.utterance_done(done, 100.0)
    found = samples(metrics)
    assert found[f"audio_skipped_requests_total{{reason={reason}}}"] == 1
    assert found["audio_continuity_ok_total{threshold_ms=500}"] == 0
    assert found["audio_underrun_seconds_count"] == 0
    assert found["audio_ttfp_seconds_count"] == (done.continuity.packets > 0)


def test_a_barge_in_counts_its_latency_and_what_was_sent_in_vain() -> None:
    metrics = Metrics()
    metrics.cancelled(0.002, 1.5)
    metrics.cancelled(0.002, -0.1)  # a client that reports more than it was sent
    metrics.send_queue(40.0)
    found = samples(metrics)
    assert found["cancel_latency_seconds_sum"] == pytest.approx(0.004)
    assert found["wasted_audio_seconds_sum"] == 1.5
    assert found["send_queue_ms_bucket{le=50.0}"] == 1


def test_stages_are_counted_by_name_and_their_queue_ends_with_the_work() -> None:
    metrics = Metrics()
    metrics.on_batch(launch(4), 0.02, 7)
    found = samples(metrics)
    assert found["stage_batch_size_sum{stage=talker}"] == 4
    assert found["stage_step_seconds_sum{stage=talker}"] == 0.02
    assert found["stage_queue_depth{stage=talker}"] == 7
    metrics.on_idle()
    assert samples(metrics)["stage_queue_depth{stage=talker}"] == 0


def test_an_engine_that_runs_fills_in_every_stage() -> None:
    metrics = Metrics()
    engine, _events = make_engine(tone.build(max_batch=2))
    engine._observer = metrics
    metrics.watch_engine(engine.status)
    for number in range(5):
        engine.handle(Submit(request(number)))
    assert samples(metrics)["engine_requests_active"] == 5
    run_to_end(engine)
    found = samples(metrics)
    for stage in ("talker", "code2wav"):
        assert found[f"stage_batch_size_count{{stage={stage}}}"] == found[f"stage_step_seconds_count{{stage={stage}}}"]
        assert found[f"stage_batch_size_sum{{stage={stage}}}"] >= 5
        assert found[f"stage_queue_depth{{stage={stage}}}"] == 0
    assert (found["engine_ready"], found["engine_requests_active"]) == (1, 0)


def test_an_engine_that_lets_everybody_in_has_no_number_of_places() -> None:
    metrics = Metrics()
    metrics.watch_engine(lambda: EngineStatus(ready=False, reason="stopping"))
    found = samples(metrics)
    assert found["engine_ready"] == 0
    assert found["engine_places"] != found["engine_places"]  # NaN


async def test_a_loop_that_stands_still_is_seen() -> None:
    metrics, clock = Metrics(), VirtualClock()
    measuring = asyncio.create_task(metrics.measure_loop_lag(clock, 0.0))
    await asyncio.sleep(0)
    clock.advance(3.0)
    await until(lambda: samples(metrics)["event_loop_lag_seconds_sum"] == 3.0)
    measuring.cancel()
    assert (await asyncio.gather(measuring, return_exceptions=True))[0] is not None


async def test_threads_that_count_at_once_lose_nothing() -> None:
    metrics = Metrics()
    batch = launch(1)

    def count() -> None:
        for _ in range(500):
            metrics.on_batch(batch, 0.001, 0)

    await asyncio.gather(*(asyncio.to_thread(count) for _ in range(4)))
    assert samples(metrics)["stage_batch_size_count{stage=talker}"] == 2000
