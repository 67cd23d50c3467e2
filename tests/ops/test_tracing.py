"""Traces: one span per sentence with its stages, which always ends once and never contains the text."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from realtime_tts.clock import MonotonicClock, VirtualClock
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    Cancel,
    EndStream,
    EngineEvent,
    EngineHandle,
    FinishReason,
    PlayoutEnd,
    RequestFinished,
    Submit,
)
from realtime_tts.engine.engine import Engine
from realtime_tts.engine.executor import InlineExecutor
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models import tone
from realtime_tts.engine.observer import ObservedEngine
from realtime_tts.errors import SynthesisFailed
from realtime_tts.ops.tracing import Tracing, provider_for
from realtime_tts.session.limits import SessionLimits
from tests.fakes import FakeClient, FakeEngine, request, run_to_end, spoken, until
from tests.session.harness import make_runner

SAID = "A sentence that is nobody's business."


class Traces:
    def __init__(self, sample_ratio: float = 1.0, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=TraceIdRatioBased(sample_ratio), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(provider, self.clock)

    @property
    def open(self) -> int:
        """Sentences whose span has not ended."""
        return len(self.tracing._sentences)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return tuple(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def period_s(self, name: str) -> tuple[float, float]:
        """Begin and end, by the virtual clock."""
        (span,) = self.named(name)
        assert span.start_time is not None
        assert span.end_time is not None
        start_s, end_s = (time / 1e9 - self.tracing._unix_s for time in (span.start_time, span.end_time))
        return round(start_s, 4), round(end_s, 4)


@pytest.fixture
def traces() -> Iterator[Traces]:
    found = Traces()
    yield found
    found.tracing.close()


def nothing(_event: EngineEvent) -> None: ...


def finish(engine: FakeEngine, reason: FinishReason, error: SynthesisFailed | None = None) -> None:
    request_id = engine.requests[-1].request_id
    engine.running.pop(request_id)(RequestFinished(request_id, reason, error=error))


def test_the_stages_of_a_sentence_are_children_of_its_span(traces: Traces) -> None:
    """In virtual time: 1 s in the queue, then talker and code2wav, then sent at once."""
    clock, tracing = traces.clock, traces.tracing
    model = tone.build(costs=tone.ToneCosts(a0_s=0.01, a1_s=0.02), wait_s=clock.advance, shared_lane=True)
    one = request(0, "x" * 10)
    tracing.on_command(Submit(one))
    events: list[EngineEvent] = []
    engine = Engine(model, InlineExecutor(model), clock, emit=events.extend, observer=tracing)
    engine.handle(Submit(one))
    clock.advance(1.0)
    run_to_end(engine)
    for event in events:
        tracing.on_event(event)
        if isinstance(event, AudioReady):
            clock.advance(0.5)
            tracing.on_command(AudioSent(one.request_id, len(event.samples), 0.0))
    assert traces.period_s("queue") == (0.0, 1.0)
    assert traces.period_s("talker")[0] == 1.0
    (talker,) = traces.named("talker")
    assert talker.attributes is not None
    assert talker.attributes["batches"] == 8  # one frame per step
    assert talker.attributes["busy_s"] == pytest.approx(0.08)
    start_s, end_s = traces.period_s("sentence")
    assert start_s == 0.0
    assert end_s == traces.period_s("send")[1] == round(clock.now_s(), 4)
    (parent,) = traces.named("sentence")
    for span in traces.spans:
        assert span is parent or span.parent is not None
        if span is not parent:
            assert span.parent is not None
            assert span.parent.span_id == parent.context.span_id
    assert {span.name for span in traces.spans} == {"sentence", "queue", "talker", "code2wav", "send"}
    assert traces.open == 0


@given(data=st.data())
@settings(max_examples=25)
def test_every_sentence_has_one_span_and_none_stays_open(data: st.DataObject) -> None:
    traces = Traces()
    engine = FakeEngine()
    observed: EngineHandle = ObservedEngine(engine, traces.tracing)
    sentences = [request(number, stream="s") for number in range(4)]
    for each in sentences:
        observed.send(Submit(each), nothing)
    for _ in range(data.draw(st.integers(0, 12))):
        number = data.draw(st.integers(0, 3))
        request_id = sentences[number].request_id
        match data.draw(st.sampled_from(["speak", "finish", "fail", "cancel", "sent"])):
            case "speak" if request_id in engine.running:
                engine.emit_audio(number, spoken("Hi."))
            case "finish" if request_id in engine.running:
                engine.finish(number)
            case "fail" if request_id in engine.running:
                engine.finish(number, SynthesisFailed("boom"))
            case "cancel":
                observed.send(Cancel(request_id))
            case "sent":
                observed.send(AudioSent(request_id, data.draw(st.integers(0, 50_000)), lead_s=0.0))
    observed.send(EndStream("s"))
    assert traces.open == 0
    assert len(traces.named("sentence")) == 4
    traces.tracing.close()


def test_a_failure_is_reported_by_its_code_only(traces: Traces) -> None:
    engine = FakeEngine()
    ObservedEngine(engine, traces.tracing).send(Submit(request(0, SAID)), nothing)
    finish(engine, FinishReason.ERROR, SynthesisFailed(f"cannot say {SAID}"))
    (span,) = traces.named("sentence")
    assert span.status.description == "synthesis_failed"
    assert not span.status.is_ok
    assert "business" not in span.to_json()


def test_a_span_is_open_until_all_audio_is_sent(traces: Traces) -> None:
    engine = FakeEngine()
    observed = ObservedEngine(engine, traces.tracing)
    observed.send(Submit(request(0)), nothing)
    engine.emit_audio(0, spoken("Hello."))
    engine.finish(0)
    assert not traces.spans
    observed.send(AudioSent("r0", len(spoken("Hello.")), lead_s=1.0))
    assert len(traces.named("sentence")) == 1


def test_a_barge_in_ends_the_span_although_audio_is_unsent(traces: Traces) -> None:
    engine = FakeEngine()
    observed = ObservedEngine(engine, traces.tracing)
    observed.send(Submit(request(0)), nothing)
    engine.emit_audio(0, spoken("Hello."))
    observed.send(Cancel("r0"))
    assert [span.name for span in traces.spans][-1] == "sentence"
    assert traces.open == 0


def test_a_sink_that_raises_does_not_keep_the_span_open(traces: Traces) -> None:
    engine = FakeEngine()

    def broken(_event: EngineEvent) -> None:
        raise RuntimeError("a bug")

    ObservedEngine(engine, traces.tracing).send(Submit(request(0)), broken)
    with pytest.raises(RuntimeError):
        engine.finish(0)
    assert len(traces.named("sentence")) == 1
    assert traces.open == 0


def test_a_sentence_that_is_not_in_the_sample_is_ignored() -> None:
    traces = Traces(sample_ratio=0.0)
    engine = FakeEngine()
    ObservedEngine(engine, traces.tracing).send(Submit(request(0)), nothing)
    assert traces.open == 0
    engine.finish(0)
    assert not traces.spans
    traces.tracing.close()


def test_an_observed_engine_behaves_like_the_engine(traces: Traces) -> None:
    engine = FakeEngine()
    observed = ObservedEngine(engine, traces.tracing)
    assert observed.info is engine.info
    assert observed.status() == engine.status()
    observed.send(PlayoutEnd("s0", 3.0))
    assert engine.commands == [PlayoutEnd("s0", 3.0)]


async def test_the_trace_of_a_session_does_not_contain_its_text() -> None:
    clock = MonotonicClock()
    traces = Traces()
    traces.tracing._clock = clock
    traces.tracing._unix_s = 0.0
    worker = EngineThread(tone.build(), clock, observer=traces.tracing)
    worker.start()
    client = FakeClient()
    connection = make_runner(client, ObservedEngine(worker, traces.tracing), SessionLimits(), clock)
    serving = asyncio.create_task(connection.run())
    client.sends(type="session.config", response_format="pcm", stream_audio=True)
    client.sends(type="input.text", text=f"{SAID} And one more. ")
    client.sends(type="input.done")
    await until(lambda: "session.done" in client.received_types())
    client.disconnects()
    await serving
    await worker.stop()
    assert len(traces.named("sentence")) == len(traces.named("send")) == len(traces.named("code2wav")) == 2
    assert traces.open == 0
    for span in traces.spans:
        assert "business" not in span.to_json()
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= span.end_time
    whole = json.loads(traces.named("sentence")[0].to_json())["attributes"]
    assert (whole["reason"], whole["characters"]) == ("complete", len(SAID))
    traces.tracing.close()


def test_closing_does_not_wait_for_an_unreachable_collector() -> None:
    threads = threading.active_count()
    tracing = Tracing(provider_for("http://127.0.0.1:9/v1/traces", 1.0), MonotonicClock())
    engine = FakeEngine()
    ObservedEngine(engine, tracing).send(Submit(request(0)), nothing)
    engine.finish(0)
    tracing.close()
    assert threading.active_count() == threads


def test_closing_sends_the_remaining_spans() -> None:
    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever).start()
        tracing = Tracing(provider_for(f"http://127.0.0.1:{server.server_port}/v1/traces", 1.0), MonotonicClock())
        engine = FakeEngine()
        ObservedEngine(engine, tracing).send(Submit(request(0, SAID)), nothing)
        engine.finish(0)
        tracing.close()
        server.shutdown()
    (body,) = bodies
    assert b"realtime-tts" in body or body[:2] == b"\x1f\x8b"
    assert b"business" not in body
