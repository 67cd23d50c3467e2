"""OpenTelemetry traces: one span per sentence, with its time in each part.  Imported only if tracing is on.

The span `sentence` has the children `queue` (until its first batch), one per stage (from the first launch to the last
end, with the seconds of its batches), and `send` (from the first to the last packet).  They contain the length of the
text, not the text.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import Span, Status, StatusCode

from realtime_tts.clock import Clock, unix_time_s
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    Cancel,
    EndStream,
    EngineCommand,
    EngineEvent,
    FinishReason,
    RequestFinished,
    Submit,
    SynthesisRequest,
)
from realtime_tts.engine.executor import Launch

EXPORT_S = 2
"""Timeout of one export, and so the longest time that a stopping server waits for an unreachable collector."""


@dataclass(slots=True)
class Period:
    """The time from the first start to the last end."""

    start_s: float
    end_s: float
    busy_s: float = 0.0
    batches: int = 0


@dataclass(slots=True)
class Sentence:
    """A sentence whose span is open."""

    request: SynthesisRequest
    span: Span
    submitted_s: float
    stages: dict[str, Period] = field(default_factory=dict)
    send: Period | None = None
    samples_made: int = 0
    samples_sent: int = 0
    finished: RequestFinished | None = None


def provider_for(endpoint: str, sample_ratio: float) -> TracerProvider:
    """Sends spans in batches, from its own thread.  If the collector is unreachable, spans are lost."""
    provider = TracerProvider(
        sampler=TraceIdRatioBased(sample_ratio),
        resource=Resource.create({"service.name": "realtime-tts"}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint, timeout=EXPORT_S)))
    return provider


class Tracing:
    """An `EngineObserver` and a `StreamObserver`."""

    def __init__(self, provider: TracerProvider, clock: Clock) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("realtime_tts")
        self._clock = clock
        self._unix_s = unix_time_s() - clock.now_s()
        """Unix time at zero of the clock."""
        self._sentences: dict[str, Sentence] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Blocks until the last spans are sent, at most for a short time."""
        self._provider.shutdown()

    # -- On the engine's thread ----------------------------------------------------------------------------------------

    def on_batch(self, launch: Launch, seconds: float, queue_depth: int) -> None:
        end_s = self._clock.now_s()
        with self._lock:
            for row in launch.inputs:
                sentence = self._sentences.get(row.request.request_id)
                if sentence is None:
                    continue
                period = sentence.stages.setdefault(launch.stage, Period(end_s - seconds, end_s))
                period.end_s = end_s
                period.busy_s += seconds
                period.batches += 1

    def on_idle(self) -> None: ...

    # -- On the event loop ---------------------------------------------------------------------------------------------

    def on_command(self, command: EngineCommand) -> None:
        match command:
            case Submit(request=request):
                self._begin(request)
            case AudioSent(request_id=request_id, samples=samples):
                self._on_sent(request_id, samples)
            case Cancel(request_id=request_id):
                self._on_cancel(request_id)
            case EndStream(stream_id=stream_id):
                for sentence in [each for each in self._sentences.values() if each.request.stream_id == stream_id]:
                    self._on_cancel(sentence.request.request_id)

    def on_event(self, event: EngineEvent) -> None:
        sentence = self._sentences.get(event.request_id)
        if sentence is None:
            return
        if isinstance(event, AudioReady):
            sentence.samples_made += len(event.samples)
        elif isinstance(event, RequestFinished):
            sentence.finished = event
            self._end_if_sent(sentence)

    def _begin(self, request: SynthesisRequest) -> None:
        """A sentence that is not in the sample is ignored."""
        now_s = self._clock.now_s()
        span = self._tracer.start_span("sentence", start_time=self._unix_ns(now_s))
        if span.is_recording():
            self._sentences[request.request_id] = Sentence(request, span, now_s)

    def _on_sent(self, request_id: str, samples: int) -> None:
        sentence = self._sentences.get(request_id)
        if sentence is None:
            return
        now_s = self._clock.now_s()
        if sentence.send is None:
            sentence.send = Period(now_s, now_s)
        sentence.send.end_s = now_s
        sentence.samples_sent += samples
        self._end_if_sent(sentence)

    def _on_cancel(self, request_id: str) -> None:
        """Ends the span of a finished sentence: its remaining audio is not sent.  Else its last event ends the span."""
        sentence = self._sentences.get(request_id)
        if sentence is not None and sentence.finished is not None:
            self._end(sentence, sentence.finished)

    def _end_if_sent(self, sentence: Sentence) -> None:
        finished = sentence.finished
        if finished is None or sentence.request.request_id not in self._sentences:
            return
        if finished.reason in (FinishReason.CANCELLED, FinishReason.ERROR) or (
            sentence.samples_sent >= sentence.samples_made
        ):
            self._end(sentence, finished)

    # -- Spans ---------------------------------------------------------------------------------------------------------

    def _end(self, sentence: Sentence, finished: RequestFinished) -> None:
        with self._lock:  # a batch of a cancelled sentence may end at the same time
            del self._sentences[sentence.request.request_id]
            stages = dict(sentence.stages)
        now_s = self._clock.now_s()
        first_s = min((stage.start_s for stage in stages.values()), default=now_s)
        self._child(sentence, "queue", Period(sentence.submitted_s, max(first_s, sentence.submitted_s)), {})
        for name, stage in stages.items():
            self._child(sentence, name, stage, {"busy_s": stage.busy_s, "batches": stage.batches})
        if sentence.send is not None:
            self._child(sentence, "send", sentence.send, {"samples": sentence.samples_sent})
        sentence.span.set_attributes(_attributes(sentence.request, finished))
        if finished.error is not None:
            sentence.span.set_status(Status(StatusCode.ERROR, finished.error.code))
        sentence.span.end(self._unix_ns(now_s))

    def _child(self, sentence: Sentence, name: str, period: Period, attributes: Mapping[str, float]) -> None:
        span = self._tracer.start_span(
            name,
            context=trace.set_span_in_context(sentence.span),
            start_time=self._unix_ns(period.start_s),
            attributes=dict(attributes),
        )
        span.end(self._unix_ns(period.end_s))

    def _unix_ns(self, seconds: float) -> int:
        return int((seconds + self._unix_s) * 1e9)


def _attributes(request: SynthesisRequest, finished: RequestFinished) -> dict[str, str | float]:
    attributes: dict[str, str | float] = {
        "request_id": request.request_id,
        "stream_id": request.stream_id,
        "voice": request.voice,
        "characters": len(request.text),
        "reason": finished.reason.value,
    }
    if (metrics := finished.metrics) is not None:
        attributes |= {"audio_s": metrics.audio_s, "chunks": metrics.chunks, "synthesis_s": metrics.synthesis_s}
        if metrics.initial_chunk_frames is not None:
            attributes["initial_chunk_frames"] = metrics.initial_chunk_frames
    return attributes
