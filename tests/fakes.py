"""Stand-ins for what a test must be able to break: stages that raise or hang, a transport without a socket."""

import asyncio
import threading
from collections.abc import Callable, Sequence

from realtime_tts.clock import Clock, VirtualClock
from realtime_tts.engine.api import AudioReady, EngineEvent, RequestFinished, Samples, SynthesisRequest
from realtime_tts.engine.engine import Engine
from realtime_tts.engine.executor import Executor, InlineExecutor
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model, Stage, StageInput, StageOutput


class WrappedStage:
    """A stage whose `run` first does something else, such as raising or waiting."""

    def __init__(self, stage: Stage, before: Callable[[Sequence[StageInput]], None]) -> None:
        self._stage = stage
        self._before = before

    @property
    def name(self) -> str:
        return self._stage.name

    @property
    def lane(self) -> str:
        return self._stage.lane

    @property
    def max_batch(self) -> int:
        return self._stage.max_batch

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        self._before(batch)
        return self._stage.run(batch)

    def release(self, request_id: str) -> None:
        self._stage.release(request_id)


def wrapped(model: Model, stage_name: str, before: Callable[[Sequence[StageInput]], None]) -> Model:
    stages = tuple(WrappedStage(s, before) if s.name == stage_name else s for s in model.stages)
    return Model(model.info, stages, model.chunk_plan, model.nominal_streams)


def raises_for(text: str) -> Callable[[Sequence[StageInput]], None]:
    def before(batch: Sequence[StageInput]) -> None:
        if any(row.request.text == text for row in batch):
            raise RuntimeError(f"boom on {text!r}")

    return before


class Gate:
    """Holds a stage until it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self, _batch: Sequence[StageInput]) -> None:
        self.entered.set()
        assert self.opened.wait(20), "the test never opened the gate"


class HeldExecutor(InlineExecutor):
    """Runs a batch only when told to, so that a test decides what is in flight."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Callable[[], None]] = []

    def launch(self, launch: object) -> None:
        parent = super().launch
        self.held.append(lambda: parent(launch))  # type: ignore[arg-type]

    def run_all(self) -> None:
        held, self.held = self.held, []
        for run in held:
            run()


def slots(model: Model) -> int:
    """What the tone model's stages hold, over all requests."""
    total = 0
    for stage in model.stages:
        assert isinstance(stage, tone.Talker | tone.Code2Wav)
        total += len(stage.slots)
    return total


def request(number: int = 0, text: str = "Hello there, world.", *, stream: str | None = None) -> SynthesisRequest:
    return SynthesisRequest(f"r{number}", stream or f"s{number}", text, "tone_low")


def make_engine(
    model: Model, *, executor: Executor | None = None, clock: Clock | None = None
) -> tuple[Engine, list[EngineEvent]]:
    events: list[EngineEvent] = []
    engine = Engine(model, executor or InlineExecutor(), clock or VirtualClock(), emit=events.extend)
    return engine, events


def run_to_end(engine: Engine) -> None:
    while engine.step():
        pass


def samples_of(events: Sequence[EngineEvent], request_id: str) -> list[Samples]:
    return [event.samples for event in events if isinstance(event, AudioReady) and event.request_id == request_id]


def ends_of(events: Sequence[EngineEvent], request_id: str) -> list[RequestFinished]:
    return [event for event in events if isinstance(event, RequestFinished) and event.request_id == request_id]


async def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    """Waits for what another thread or task will bring about; the time is only a safety net."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
