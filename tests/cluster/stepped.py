"""A replica in the test's own thread: the real engine, whose steps the test makes, and which can be lost."""

from collections.abc import Callable

from realtime_tts.engine.api import (
    EngineCommand,
    EngineEvent,
    EngineStatus,
    EventSink,
    FinishReason,
    ModelInfo,
    RequestFinished,
    Submit,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model
from realtime_tts.errors import EngineUnavailable
from tests.fakes import make_engine


class SteppedEngine:
    def __init__(
        self,
        config: EngineConfig | None = None,
        on_submit: Callable[[Submit], None] | None = None,
        build: Callable[[], Model] = tone.build,
    ) -> None:
        self._build = build
        self._config = config or EngineConfig(max_wait_s=None)
        self._on_submit = on_submit
        self._sinks: dict[str, EventSink] = {}
        self.is_lost = False
        self.commands: list[EngineCommand] = []
        self._start()

    def _start(self) -> None:
        model = self._build()
        self._info = model.info
        self._engine, self._events = make_engine(model, config=self._config)
        self._sinks.clear()

    @property
    def info(self) -> ModelInfo:
        return self._info

    def send(self, command: EngineCommand, sink: EventSink | None = None) -> None:
        self.commands.append(command)
        if isinstance(command, Submit):
            assert sink is not None
            self._sinks[command.request.request_id] = sink
            if self.is_lost:
                return  # its end follows in `step`
            if self._on_submit is not None:
                self._on_submit(command)
        if not self.is_lost:
            self._engine.handle(command)

    def status(self) -> EngineStatus:
        return EngineStatus(ready=False, reason="lost") if self.is_lost else self._engine.status()

    def step(self) -> bool:
        if self.is_lost:
            self._end_all()
            return False
        did = self._engine.step()
        events, self._events[:] = list(self._events), []
        for event in events:
            self._deliver(event)
        return did or bool(events)

    def lose(self) -> None:
        """As when its process is killed."""
        self.is_lost = True
        self._engine.stop()  # a model that several of these share keeps nothing of it
        self._engine.step()
        self._end_all()

    def come_back(self) -> None:
        self._end_all()
        self.is_lost = False
        self._start()

    @property
    def requests(self) -> int:
        return self._engine.status().active_requests

    def _end_all(self) -> None:
        for request_id in list(self._sinks):
            error = EngineUnavailable("the engine accepts no requests: lost")
            self._deliver(RequestFinished(request_id, FinishReason.ERROR, error=error))

    def _deliver(self, event: EngineEvent) -> None:
        finished = isinstance(event, RequestFinished)
        sink = self._sinks.pop(event.request_id, None) if finished else self._sinks.get(event.request_id)
        if sink is not None:
            sink(event)
