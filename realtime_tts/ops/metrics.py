"""What operators chart: every figure of the server in Prometheus' text format, in a registry of its own."""

import asyncio
import re
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from realtime_tts.clock import Clock
from realtime_tts.engine.api import EngineStatus, FinishReason
from realtime_tts.engine.executors.thread import Launch
from realtime_tts.session.events import Cancelled, SentenceDone, SessionEvent, UtteranceDone

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
PREFIX = "realtime_tts"

THRESHOLDS_MS = (0, 50, 100, 200, 500)
"""Continuity is counted for each, whatever clients ask for: a label must not have as many values as they think of."""
MAX_REASONS = 32
"""Values of one `reason` label; what comes beyond is counted as `other`."""
LAG_INTERVAL_S = 0.1

TTFP_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
UNDERRUN_BUCKETS_S = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 3.0, 5.0, 10.0)
RTF_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 5.0)
AUDIO_BUCKETS_S = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0)
CANCEL_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
WASTED_BUCKETS_S = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 60.0)
SEND_QUEUE_BUCKETS_MS = (0.0, 10.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10_000.0, 20_000.0)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
STEP_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 30.0)
LAG_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)

_REASON = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Reasons:
    """A counter by reason, whose label stays bounded whoever names the reasons."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._known: dict[str, Counter] = {}

    def count(self, reason: str) -> None:
        child = self._known.get(reason)
        if child is None:
            if len(self._known) >= MAX_REASONS or not _REASON.fullmatch(reason):
                reason = "other"
            child = self._known[reason] = self._counter.labels(reason)
        child.inc()


class StageFigures:
    """The figures of one stage, looked up once."""

    def __init__(self, rows: Histogram, seconds: Histogram, queue_depth: Gauge) -> None:
        self.rows = rows
        self.seconds = seconds
        self.queue_depth = queue_depth


class Metrics:
    """A `SessionObserver`, an `EngineObserver`, and what the server counts by itself.

    What a listener hears (TTFP, underrun, continuity) is counted by utterance: of a later sentence, which was made
    while the one before was heard, it would only flatter.  What the engine does (RTF, duration) is counted by sentence.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._about_audio()
        self._about_sessions()
        self._about_stages()
        self._stages: dict[str, StageFigures] = {}

    def _about_audio(self) -> None:
        self._ttfp = self._histogram(
            "audio_ttfp_seconds", "From an utterance's first text to its first audio packet.", TTFP_BUCKETS_S
        )
        self._underrun = self._histogram(
            "audio_underrun_seconds",
            "The smallest extra delay at the start that would have made an utterance gapless.",
            UNDERRUN_BUCKETS_S,
        )
        self._continuity_ok = self._counter(
            "audio_continuity_ok_total", "Measured utterances whose underrun is within the threshold.", "threshold_ms"
        )
        self._within = [(limit, self._continuity_ok.labels(str(limit))) for limit in THRESHOLDS_MS]
        self._skipped = Reasons(
            self._counter(
                "audio_skipped_requests_total",
                "Utterances without a continuity to measure.  no_audio is a failure, the others are not.",
                "reason",
            )
        )
        self._rtf = self._histogram("audio_rtf", "Seconds of work per second of audio, by sentence.", RTF_BUCKETS)
        self._duration = self._histogram("audio_duration_seconds", "Audio sent, by sentence.", AUDIO_BUCKETS_S)
        self._sentences = Reasons(self._counter("sentences_total", "Sentences, by how they have ended.", "reason"))

    def _about_sessions(self) -> None:
        self._active = Gauge("sessions_active", "Open connections.", namespace=PREFIX, registry=self._registry)
        self._rejected = Reasons(
            self._counter("sessions_rejected_total", "Connections refused before they were accepted.", "reason")
        )
        self._cancel_latency = self._histogram(
            "cancel_latency_seconds", "From a barge-in to the last word about it.", CANCEL_BUCKETS_S
        )
        self._wasted = self._histogram(
            "wasted_audio_seconds", "Audio sent and not heard, by barge-in.", WASTED_BUCKETS_S
        )
        self._send_queue = self._histogram(
            "send_queue_ms", "Audio that waits for one client to read it, sampled.", SEND_QUEUE_BUCKETS_MS
        )
        self._lag = self._histogram(
            "event_loop_lag_seconds", "How late the event loop comes to what is due, sampled.", LAG_BUCKETS_S
        )

    def _about_stages(self) -> None:
        self._batch_size = self._histogram("stage_batch_size", "Requests in one batch.", BATCH_BUCKETS, "stage")
        self._step = self._histogram("stage_step_seconds", "From a batch's launch to its end.", STEP_BUCKETS_S, "stage")
        self._queue_depth = Gauge(
            "stage_queue_depth",
            "Requests that found no room in the last batch; at the first stage also those that wait for a place.",
            ["stage"],
            namespace=PREFIX,
            registry=self._registry,
        )

    def _histogram(self, name: str, what: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, what, labels, namespace=PREFIX, buckets=buckets, registry=self._registry)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(name, what, labels, namespace=PREFIX, registry=self._registry)

    # -- The server's --------------------------------------------------------------------------------------------------

    def watch_sessions(self, active: Callable[[], int]) -> None:
        """Asked at each scrape: what the server has is never told wrong."""
        self._active.set_function(active)

    def rejected(self, reason: str) -> None:
        """`reason` is an error's code."""
        self._rejected.count(reason)

    def text(self) -> bytes:
        """All of it, as `CONTENT_TYPE`."""
        return generate_latest(self._registry)

    def watch_engine(self, status: Callable[[], EngineStatus]) -> None:
        """Adds what the engine says of itself, asked at each scrape.  Called once."""
        kinds: dict[str, tuple[str, Callable[[], float]]] = {
            "engine_ready": ("1 while requests are taken.", lambda: float(status().ready)),
            "engine_requests_active": ("Sentences in the engine.", lambda: status().active_requests),
            "engine_requests_waiting": ("Of those, the ones that wait for a place.", lambda: status().waiting_requests),
            "engine_places": (
                "Listeners that can be kept in sound at once; NaN where all are let in.",
                lambda: float("nan") if (places := status().places) is None else places,
            ),
        }
        for name, (what, value) in kinds.items():
            Gauge(name, what, namespace=PREFIX, registry=self._registry).set_function(value)

    async def measure_loop_lag(self, clock: Clock, interval_s: float = LAG_INTERVAL_S) -> None:
        """Until cancelled: how much later than asked for does a sleeper on this event loop wake up?"""
        while True:
            due_s = clock.now_s() + interval_s
            await asyncio.sleep(interval_s)
            self._lag.observe(max(0.0, clock.now_s() - due_s))

    # -- SessionObserver: on the event loop ----------------------------------------------------------------------------

    def on_event(self, event: SessionEvent, now_s: float) -> None:
        match event:
            case SentenceDone():
                self._on_sentence(event)
            case UtteranceDone():
                self._on_utterance(event)
            case Cancelled():
                self._cancel_latency.observe(now_s - event.requested_at_s)
                self._wasted.observe(max(0.0, event.audio_sent_s - event.audio_played_s))

    def _on_sentence(self, done: SentenceDone) -> None:
        self._sentences.count(done.reason.value)
        if done.report.audio_s:
            self._duration.observe(done.report.audio_s)
        rtf = None if done.metrics is None else done.metrics.rtf
        if rtf is not None and done.reason is not FinishReason.CANCELLED:
            self._rtf.observe(rtf)

    def _on_utterance(self, done: UtteranceDone) -> None:
        report = done.report
        if report.ttfp_s is not None:
            self._ttfp.observe(report.ttfp_s)
        if report.packets > 1:
            self._underrun.observe(report.max_underrun_s)
            for limit_ms, counter in self._within:
                if report.max_underrun_s * 1000 <= limit_ms:
                    counter.inc()
        elif report.packets == 1:
            self._skipped.count("single_packet")
        elif done.cancelled:
            self._skipped.count("cancelled")
        elif done.total_sentences == 0:
            self._skipped.count("nothing_to_speak")
        else:
            self._skipped.count("no_audio")

    def on_send_queue(self, unsent_s: float) -> None:
        self._send_queue.observe(unsent_s * 1000)

    # -- EngineObserver: on the engine's thread ------------------------------------------------------------------------

    def on_batch(self, launch: Launch, seconds: float, queue_depth: int) -> None:
        name = launch.stage.name
        figures = self._stages.get(name)
        if figures is None:
            figures = self._stages[name] = StageFigures(
                self._batch_size.labels(name), self._step.labels(name), self._queue_depth.labels(name)
            )
        figures.rows.observe(len(launch.inputs))
        figures.seconds.observe(seconds)
        figures.queue_depth.set(queue_depth)

    def on_idle(self) -> None:
        for figures in self._stages.values():
            figures.queue_depth.set(0)
