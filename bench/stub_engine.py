"""Engine stand-in for benchmarks of everything but the engine: an `EngineHandle` without a model behind it."""

from realtime_tts.engine.api import EngineCommand, EngineStatus, EventSink, ModelInfo, Submit, SynthesisRequest
from realtime_tts.engine.models import tone


class StubEngine:
    """Always ready.  Subclasses answer submitted requests; all other commands are ignored unless overridden."""

    info: ModelInfo = tone.info()

    def send(self, command: EngineCommand, sink: EventSink | None = None) -> None:
        if isinstance(command, Submit):
            assert sink is not None
            self.submit(command.request, sink)

    def submit(self, request: SynthesisRequest, sink: EventSink) -> None:
        raise NotImplementedError

    def status(self) -> EngineStatus:
        return EngineStatus(ready=True, reason="ready")
