"""The engine stand-in passes requests to its subclass and ignores all other commands."""

from bench.stub_engine import StubEngine
from realtime_tts.engine.api import EndStream, EventSink, Submit, SynthesisRequest


def test_only_requests_reach_the_subclass() -> None:
    submitted: list[SynthesisRequest] = []

    class Recorder(StubEngine):
        def submit(self, request: SynthesisRequest, sink: EventSink) -> None:
            submitted.append(request)

    engine, request = Recorder(), SynthesisRequest("r", "s", "Hello.", "tone_low")
    engine.send(Submit(request), lambda _event: None)
    engine.send(EndStream("s"))
    assert submitted == [request]
    assert engine.status().ready
