"""Prometheus metrics of one server, in a registry of their own."""

import asyncio
import re
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from realtime_tts.clock import Clock
from realtime_tts.engine.api import EngineStatus, FinishReason
from realtime_tts.engine.executor import Launch
from realtime_tts.engine.thinking.text_lead import CAUSES, Underrun
from realtime_tts.session.events import Cancelled, SentenceDone, SessionEvent, UtteranceDone

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
PREFIX = "realtime_tts"

THRESHOLDS_MS = (0, 50, 100, 200, 500)
"""Continuity is counted for each of these, not for the thresholds that clients ask for: labels must be bounded."""
MAX_REASONS = 32
"""Limit of different values of one label `reason`.  Further ones are counted as `other`."""
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


class ReasonCounter:
    """A counter with the label `reason`, which stays bounded whatever the reasons are."""

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


class EngineMetrics:
    """The `EngineObserver` of one engine.  Called on its thread."""

    def __init__(self, name: str, batch_size: Histogram, step: Histogram, queue_depth: Gauge) -> None:
        self._name = name
        self._batch_size = batch_size
        self._step = step
        self._queue_depth = queue_depth
        self._stages: dict[str, tuple[Histogram, Histogram, Gauge]] = {}
        """The children of each stage: a look-up by labels takes a lock."""

    def on_batch(self, launch: Launch, seconds: float, queue_depth: int) -> None:
        stage = launch.stage
        if stage not in self._stages:
            labels = (self._name, stage)
            children = (self._batch_size.labels(*labels), self._step.labels(*labels), self._queue_depth.labels(*labels))
            self._stages[stage] = children
        batch_size, step, queue = self._stages[stage]
        batch_size.observe(len(launch.inputs))
        step.observe(seconds)
        queue.set(queue_depth)

    def on_idle(self) -> None:
        for _batch_size, _step, queue in self._stages.values():
            queue.set(0)


class AnswerMetrics:
    """The `AnswerObserver` of one engine."""

    def __init__(self, name: str, underrun: Counter) -> None:
        self._underrun = {cause: underrun.labels(name, cause) for cause in CAUSES}

    def on_underrun(self, underrun: Underrun) -> None:
        self._underrun[underrun.cause].inc(underrun.seconds)


class ReplicaCollector:
    """Metrics of the replicas of each engine, read at each scrape: replicas come and go."""

    def __init__(self) -> None:
        self.engines: dict[str, Callable[[], EngineStatus]] = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        labels = ("engine", "replica")
        ready = GaugeMetricFamily(f"{PREFIX}_replica_ready", "1 while the replica accepts requests.", labels=labels)
        listeners = GaugeMetricFamily(f"{PREFIX}_replica_listeners", "Listeners that it serves.", labels=labels)
        capacity = GaugeMetricFamily(f"{PREFIX}_replica_capacity", "Listeners that it can serve.", labels=labels)
        for engine, status in self.engines.items():
            for replica in status().replicas:
                names = (engine, replica.name)
                ready.add_metric(names, float(replica.ready))
                listeners.add_metric(names, replica.listeners)
                capacity.add_metric(names, float("nan") if replica.capacity is None else replica.capacity)
        yield from (ready, listeners, capacity)


class Metrics:
    """All metrics of a server, and its `SessionObserver`.

    TTFP, underrun and continuity are counted by utterance: a later sentence is made while the one before it plays, so
    its figures would look better than what the listener notices.  RTF and duration are counted by sentence.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._replicas = ReplicaCollector()
        self._define_audio()
        self._define_sessions()
        self._define_engines()

    def _define_audio(self) -> None:
        self._ttfp = self._histogram(
            "audio_ttfp_seconds", "From the first text of an utterance to its first audio packet.", TTFP_BUCKETS_S
        )
        self._underrun = self._histogram(
            "audio_underrun_seconds",
            "The smallest extra delay at the start that would have made an utterance gapless.",
            UNDERRUN_BUCKETS_S,
        )
        continuity_ok = self._counter(
            "audio_continuity_ok_total", "Measured utterances whose underrun is within the threshold.", "threshold_ms"
        )
        self._continuity_ok = [(limit_ms, continuity_ok.labels(str(limit_ms))) for limit_ms in THRESHOLDS_MS]
        self._skipped = ReasonCounter(
            self._counter(
                "audio_skipped_requests_total",
                "Utterances without a continuity to measure.  no_audio is a failure, the others are not.",
                "reason",
            )
        )
        self._rtf = self._histogram("audio_rtf", "Seconds of work per second of audio, by sentence.", RTF_BUCKETS)
        self._duration = self._histogram("audio_duration_seconds", "Audio sent, by sentence.", AUDIO_BUCKETS_S)
        self._sentences = ReasonCounter(self._counter("sentences_total", "Sentences, by how they ended.", "reason"))

    def _define_sessions(self) -> None:
        self._active = self._gauge("sessions_active", "Open sessions.")
        self._rejected = ReasonCounter(
            self._counter(
                "sessions_rejected_total", "Requests refused before a session began, by error code.", "reason"
            )
        )
        self._cancel_latency = self._histogram(
            "cancel_latency_seconds", "From a barge-in to the server's answer.", CANCEL_BUCKETS_S
        )
        self._wasted = self._histogram(
            "wasted_audio_seconds", "Audio that was sent but not played, by barge-in.", WASTED_BUCKETS_S
        )
        self._send_queue = self._histogram(
            "send_queue_ms", "Audio that waits for one client to read it, sampled.", SEND_QUEUE_BUCKETS_MS
        )
        self._lag = self._histogram("event_loop_lag_seconds", "Delay of the event loop, sampled.", LAG_BUCKETS_S)
        self._tasks = self._gauge("event_loop_tasks", "Tasks of the event loop: some for each open connection.")

    def _define_engines(self) -> None:
        self._ready = self._gauge("engine_ready", "1 while the engine accepts requests.", "engine")
        self._requests_active = self._gauge("engine_requests_active", "Sentences in the engine.", "engine")
        self._requests_waiting = self._gauge(
            "engine_requests_waiting", "Sentences in the engine that wait for capacity.", "engine"
        )
        self._requests_queued = self._gauge(
            "engine_requests_queued", "Plain HTTP requests that are queued for capacity.", "engine"
        )
        self._capacity = self._gauge(
            "engine_capacity",
            "Listeners that can be served without gaps at once; NaN without admission control.",
            "engine",
        )
        self._batch_size = self._histogram(
            "stage_batch_size", "Requests in one batch.", BATCH_BUCKETS, "engine", "stage"
        )
        self._step = self._histogram(
            "stage_step_seconds", "From the launch of a batch to its end.", STEP_BUCKETS_S, "engine", "stage"
        )
        self._queue_depth = self._gauge(
            "stage_queue_depth",
            "Requests that did not fit into the last batch; at the first stage also those that wait for capacity.",
            "engine",
            "stage",
        )

        self._answer_underrun = self._counter(
            "answer_underrun_seconds",
            "Time for which listeners waited in the middle of an answer, by the engine that was late.",
            "engine",
            "cause",
        )
        self._redone = self._counter(
            "sentences_redone_total",
            "Sentences that moved from a lost replica, by what became of them.",
            "engine",
            "outcome",
        )
        self._registry.register(self._replicas)

    def _histogram(self, name: str, what: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, what, labels, namespace=PREFIX, buckets=buckets, registry=self._registry)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(name, what, labels, namespace=PREFIX, registry=self._registry)

    def _gauge(self, name: str, what: str, *labels: str) -> Gauge:
        return Gauge(name, what, labels, namespace=PREFIX, registry=self._registry)

    def text(self) -> bytes:
        """All metrics, as `CONTENT_TYPE`."""
        return generate_latest(self._registry)

    # -- Server and engines --------------------------------------------------------------------------------------------

    def watch_sessions(self, active: Callable[[], int]) -> None:
        """`active` is called at each scrape."""
        self._active.set_function(active)

    def watch_tasks(self, count: Callable[[], int]) -> None:
        """`count` is called at each scrape."""
        self._tasks.set_function(count)

    def watch_engine(self, name: str, status: Callable[[], EngineStatus]) -> None:
        """`status` is called at each scrape."""
        self._replicas.engines[name] = status
        self._ready.labels(name).set_function(lambda: float(status().ready))
        self._requests_active.labels(name).set_function(lambda: status().active_requests)
        self._requests_waiting.labels(name).set_function(lambda: status().waiting_requests)
        self._requests_queued.labels(name).set_function(lambda: status().queued_requests)
        self._capacity.labels(name).set_function(
            lambda: float("nan") if (capacity := status().capacity) is None else capacity
        )

    def redone(self, name: str) -> Callable[[str], None]:
        """Counts sentences of an engine that moved from a lost replica, by their outcome."""
        return lambda outcome: self._redone.labels(name, outcome).inc()

    def engine_observer(self, name: str) -> EngineMetrics:
        return EngineMetrics(name, self._batch_size, self._step, self._queue_depth)

    def answer_observer(self, name: str) -> AnswerMetrics:
        return AnswerMetrics(name, self._answer_underrun)

    def rejected(self, reason: str) -> None:
        """`reason` is the code of an error."""
        self._rejected.count(reason)

    async def measure_loop_lag(self, clock: Clock, interval_s: float = LAG_INTERVAL_S) -> None:
        """Measures, until it is cancelled, how much too late a sleeping task on this event loop wakes up."""
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
            for limit_ms, counter in self._continuity_ok:
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
