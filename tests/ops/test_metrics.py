"""Metrics: their names, their values, and bounded labels."""

import asyncio
import math
import re
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from realtime_tts.audio.playout import ContinuityReport
from realtime_tts.clock import VirtualClock
from realtime_tts.engine.api import EngineStatus, FinishReason, Submit, SynthesisMetrics
from realtime_tts.engine.executor import Launch
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import StageInput
from realtime_tts.engine.thinking.text_lead import Underrun
from realtime_tts.ops.metrics import CONTENT_TYPE, MAX_REASONS, THRESHOLDS_MS, Metrics
from realtime_tts.session.events import Cancelled, SentenceDone, UtteranceDone
from tests.fakes import make_engine, request, run_to_end, until

NAMES = [
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
    "engine_ready",
    "engine_requests_active",
    "engine_requests_waiting",
    "engine_requests_queued",
    "engine_capacity",
    "stage_batch_size",
    "stage_step_seconds",
    "stage_queue_depth",
    "event_loop_lag_seconds",
    "event_loop_tasks",
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


def report(
    *, packets: int = 5, underrun_s: float = 0.0, ttfp_s: float | None = 0.08, audio_s: float = 2.0
) -> ContinuityReport:
    return ContinuityReport(
        ttfp_s=ttfp_s,
        audio_s=audio_s,
        packets=packets,
        underrun_count=0,
        underrun_total_s=underrun_s,
        max_stall_s=underrun_s,
        max_underrun_s=underrun_s,
        text_starvation_s=0.0,
    )


def sentence(
    reason: FinishReason = FinishReason.COMPLETE, *, rtf: float | None = 0.2, audio_s: float = 2.0
) -> SentenceDone:
    metrics = None if rtf is None else SynthesisMetrics(0.001, rtf, 1.0, chunks=3, initial_chunk_frames=2)
    return SentenceDone(
        utterance_index=0,
        sentence_index=0,
        context_id=None,
        full_text=None,
        reason=reason,
        failed=reason is FinishReason.ERROR,
        report=report(audio_s=audio_s),
        ttfa_s=0.09,
        metrics=metrics,
        continuity_ok=True,
    )


def utterance(
    *,
    packets: int = 5,
    underrun_s: float = 0.0,
    ttfp_s: float | None = 0.08,
    sentences: int = 1,
    cancelled: bool = False,
    threshold_s: float = 0.1,
) -> UtteranceDone:
    return UtteranceDone(
        utterance_index=0,
        context_id=None,
        total_sentences=sentences,
        cancelled=cancelled,
        characters=12,
        report=report(packets=packets, underrun_s=underrun_s, ttfp_s=ttfp_s),
        ttfa_s=ttfp_s,
        continuity_ok=True,
        continuity_threshold_s=threshold_s,
    )


def cancelled(*, sent_s: float, played_s: float, requested_at_s: float) -> Cancelled:
    return Cancelled(None, 0, 0, "", "", sent_s, played_s, "reported", requested_at_s)


def launch(rows: int) -> Launch:
    return Launch("talker", "talker", tuple(StageInput(request(number)) for number in range(rows)))


def test_every_metric_has_our_prefix() -> None:
    text = Metrics().text().decode()
    for name in NAMES:
        assert re.search(rf"^# TYPE realtime_tts_{name}\b", text, re.MULTILINE), name
    assert CONTENT_TYPE.startswith("text/plain")


def test_two_servers_in_one_process_have_separate_metrics() -> None:
    one, two = Metrics(), Metrics()
    one.rejected("overloaded")
    assert "sessions_rejected_total{reason=overloaded}" in samples(one)
    assert "sessions_rejected_total{reason=overloaded}" not in samples(two)


def test_open_sessions_are_counted_at_each_scrape() -> None:
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
@settings(max_examples=15)
def test_the_label_reason_is_bounded(reasons: list[str]) -> None:
    metrics = Metrics()
    for reason in reasons:
        metrics.rejected(reason)
    for number in range(100):
        metrics.rejected(f"reason_{number}")
    counted = {name: value for name, value in samples(metrics).items() if name.startswith("sessions_rejected_total{")}
    assert len(counted) <= MAX_REASONS + 1
    assert all(re.fullmatch(r"sessions_rejected_total\{reason=[a-z0-9_]+\}", name) for name in counted)
    assert sum(counted.values()) == len(reasons) + 100


def test_a_sentence_counts_in_duration_and_rtf() -> None:
    metrics = Metrics()
    metrics.on_event(sentence(), 0.0)
    found = samples(metrics)
    assert found["audio_duration_seconds_sum"] == 2.0
    assert found["audio_rtf_sum"] == 0.2
    assert found["sentences_total{reason=complete}"] == 1


def test_a_sentence_without_audio_has_no_duration_and_a_cancelled_one_no_rtf() -> None:
    metrics = Metrics()
    metrics.on_event(sentence(FinishReason.ERROR, rtf=None, audio_s=0.0), 0.0)
    metrics.on_event(sentence(FinishReason.CANCELLED), 0.0)
    found = samples(metrics)
    assert found["audio_duration_seconds_count"] == 1
    assert found["audio_rtf_count"] == 0
    assert found["sentences_total{reason=error}"] == found["sentences_total{reason=cancelled}"] == 1


@given(st.lists(st.floats(0, 20), max_size=20))
@settings(max_examples=20)
def test_continuity_is_counted_for_each_threshold(underruns_s: list[float]) -> None:
    metrics = Metrics()
    for underrun_s in underruns_s:
        metrics.on_event(utterance(underrun_s=underrun_s, threshold_s=12.345), 0.0)
    found = samples(metrics)
    for limit in THRESHOLDS_MS:
        within = sum(underrun_s * 1000 <= limit for underrun_s in underruns_s)
        assert found[f"audio_continuity_ok_total{{threshold_ms={limit}}}"] == within
    # The histogram has the 100 ms of the published figure as a boundary, and agrees.
    assert found["audio_underrun_seconds_bucket{le=0.1}"] == sum(underrun_s <= 0.1 for underrun_s in underruns_s)
    assert found["audio_underrun_seconds_count"] == len(underruns_s)
    assert not any("12345" in name for name in found)


def test_an_utterance_without_a_measurable_continuity_is_never_counted_as_continuous() -> None:
    cases = [
        (utterance(packets=1), "single_packet"),
        (utterance(packets=0, ttfp_s=None), "no_audio"),
        (utterance(packets=0, ttfp_s=None, sentences=0), "nothing_to_speak"),
        (utterance(packets=0, ttfp_s=None, cancelled=True), "cancelled"),
    ]
    for done, reason in cases:
        metrics = Metrics()
        metrics.on_event(done, 0.0)
        found = samples(metrics)
        assert found[f"audio_skipped_requests_total{{reason={reason}}}"] == 1
        assert found["audio_continuity_ok_total{threshold_ms=500}"] == 0
        assert found["audio_underrun_seconds_count"] == 0
        assert found["audio_ttfp_seconds_count"] == (done.report.packets > 0), reason


def test_a_cancel_counts_its_latency_and_the_audio_that_was_sent_and_not_played() -> None:
    metrics = Metrics()
    metrics.on_event(cancelled(sent_s=2.0, played_s=0.5, requested_at_s=1.0), 1.002)
    metrics.on_event(cancelled(sent_s=2.0, played_s=2.1, requested_at_s=1.0), 1.002)  # a report beyond what was sent
    metrics.on_send_queue(0.04)
    found = samples(metrics)
    assert found["cancel_latency_seconds_sum"] == pytest.approx(0.004)
    assert found["wasted_audio_seconds_sum"] == 1.5
    assert found["send_queue_ms_bucket{le=50.0}"] == 1


def test_stages_are_counted_by_engine_and_name_and_their_queues_are_empty_when_idle() -> None:
    metrics = Metrics()
    one, other = metrics.engine_observer("one"), metrics.engine_observer("other")
    one.on_batch(launch(4), 0.02, 7)
    other.on_batch(launch(2), 0.01, 3)
    found = samples(metrics)
    assert found["stage_batch_size_sum{engine=one,stage=talker}"] == 4
    assert found["stage_step_seconds_sum{engine=one,stage=talker}"] == 0.02
    assert found["stage_queue_depth{engine=one,stage=talker}"] == 7
    assert found["stage_batch_size_sum{engine=other,stage=talker}"] == 2
    one.on_idle()
    found = samples(metrics)
    assert found["stage_queue_depth{engine=one,stage=talker}"] == 0
    assert found["stage_queue_depth{engine=other,stage=talker}"] == 3


def test_a_running_engine_fills_in_every_stage() -> None:
    metrics = Metrics()
    engine, _events = make_engine(tone.build(max_batch=2))
    engine._observer = metrics.engine_observer("tone")
    metrics.watch_engine("tone", engine.status)
    for number in range(5):
        engine.handle(Submit(request(number)))
    assert samples(metrics)["engine_requests_active{engine=tone}"] == 5
    run_to_end(engine)
    found = samples(metrics)
    for stage in ("talker", "code2wav"):
        labels = f"{{engine=tone,stage={stage}}}"
        assert found[f"stage_batch_size_count{labels}"] == found[f"stage_step_seconds_count{labels}"]
        assert found[f"stage_batch_size_sum{labels}"] >= 5
        assert found[f"stage_queue_depth{labels}"] == 0
    assert (found["engine_ready{engine=tone}"], found["engine_requests_active{engine=tone}"]) == (1, 0)


def test_gaps_in_answers_are_counted_by_the_engine_that_was_late() -> None:
    metrics = Metrics()
    observer = metrics.answer_observer("omni")
    for underrun in (Underrun("thinker", 0.5), Underrun("thinker", 0.25), Underrun("speech", 0.1)):
        observer.on_underrun(underrun)
    found = samples(metrics)
    assert found["answer_underrun_seconds_total{cause=thinker,engine=omni}"] == 0.75
    assert found["answer_underrun_seconds_total{cause=speech,engine=omni}"] == 0.1


def test_an_engine_without_admission_control_has_no_capacity() -> None:
    metrics = Metrics()
    metrics.watch_engine("tone", lambda: EngineStatus(ready=False, reason="stopping"))
    found = samples(metrics)
    assert found["engine_ready{engine=tone}"] == 0
    assert math.isnan(found["engine_capacity{engine=tone}"])


async def test_the_tasks_of_the_event_loop_are_counted_at_each_scrape() -> None:
    metrics = Metrics()
    metrics.watch_tasks(lambda: len(asyncio.all_tasks()))
    before = samples(metrics)["event_loop_tasks"]
    waiting = asyncio.create_task(asyncio.Event().wait())
    assert samples(metrics)["event_loop_tasks"] == before + 1
    waiting.cancel()


async def test_a_blocked_event_loop_is_measured() -> None:
    metrics, clock = Metrics(), VirtualClock()
    measuring = asyncio.create_task(metrics.measure_loop_lag(clock, 0.0))
    await asyncio.sleep(0)
    clock.advance(3.0)
    await until(lambda: samples(metrics)["event_loop_lag_seconds_sum"] == 3.0)
    measuring.cancel()
    assert (await asyncio.gather(measuring, return_exceptions=True))[0] is not None


async def test_concurrent_threads_lose_no_count() -> None:
    metrics = Metrics()
    batch, observer = launch(1), metrics.engine_observer("tone")

    def count() -> None:
        for _ in range(500):
            observer.on_batch(batch, 0.001, 0)

    await asyncio.gather(*(asyncio.to_thread(count) for _ in range(4)))
    assert samples(metrics)["stage_batch_size_count{engine=tone,stage=talker}"] == 2000
