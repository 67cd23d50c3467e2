"""Test doubles: stages that raise or block, an engine without stages, a client without a socket."""

import asyncio
import dataclasses
import json
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from realtime_tts.audio.pcm import pcm_bytes
from realtime_tts.clock import Clock, VirtualClock
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    Cancel,
    EndStream,
    EngineCommand,
    EngineEvent,
    EngineStatus,
    EventSink,
    FinishReason,
    RequestFinished,
    Samples,
    Submit,
    SynthesisRequest,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.engine import Engine
from realtime_tts.engine.executor import Executor, InlineExecutor, Launch
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model, Stage, StageInput, StageOutput
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.frontends.native.decode import decode
from realtime_tts.frontends.native.encode import NativeEncoder
from realtime_tts.session.events import SessionEvent
from realtime_tts.session.frontend import Frame
from realtime_tts.session.inputs import SessionInput


class WrappedStage:
    """A stage that calls `before` at the start of each `run`, to raise or to block."""

    def __init__(self, stage: Stage, before: Callable[[Sequence[StageInput]], None]) -> None:
        self._stage = stage
        self._before = before

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        self._before(batch)
        return self._stage.run(batch)

    def release(self, request_id: str) -> None:
        self._stage.release(request_id)


def with_stage(model: Model, name: str, *replicas: Stage) -> Model:
    """The model with other replicas of one stage."""
    return dataclasses.replace(model, stages={**model.stages, name: replicas})


def with_slots(model: Model, name: str, slots: int) -> Model:
    specs = (dataclasses.replace(spec, slots=slots) if spec.name == name else spec for spec in model.specs)
    return dataclasses.replace(model, specs=tuple(specs))


def wrapped(model: Model, stage_name: str, before: Callable[[Sequence[StageInput]], None]) -> Model:
    return with_stage(model, stage_name, *(WrappedStage(stage, before) for stage in model.stages[stage_name]))


def raises_for(text: str) -> Callable[[Sequence[StageInput]], None]:
    def before(batch: Sequence[StageInput]) -> None:
        if any(row.request.text == text for row in batch):
            raise RuntimeError(f"boom on {text!r}")

    return before


class Gate:
    """Blocks a stage until a test sets `opened`."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self, _batch: Sequence[StageInput]) -> None:
        self.entered.set()
        assert self.opened.wait(20), "the test did not open the gate within 20 s"


class HeldExecutor(InlineExecutor):
    """Runs batches only on `run_all` or `run_first`, so that a test decides what is in flight."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.held: list[Launch] = []

    def launch(self, launch: Launch) -> None:
        self.held.append(launch)

    def run_all(self) -> None:
        held, self.held = self.held, []
        for launch in held:
            super().launch(launch)

    def run_first(self) -> None:
        super().launch(self.held.pop(0))


def slots(model: Model) -> int:
    """Entries that the tone model's stages keep, over all requests and replicas."""
    total = 0
    for stage in (stage for replicas in model.stages.values() for stage in replicas):
        assert isinstance(stage, tone.Thinker | tone.Talker | tone.Code2Wav)
        total += len(stage.slots)
    return total


def request(number: int = 0, text: str = "Hello there, world.", *, stream: str | None = None) -> SynthesisRequest:
    return SynthesisRequest(f"r{number}", stream or f"s{number}", text, "tone_low")


def make_engine(
    model: Model, *, executor: Executor | None = None, clock: Clock | None = None, config: EngineConfig | None = None
) -> tuple[Engine, list[EngineEvent]]:
    events: list[EngineEvent] = []
    executor = executor or InlineExecutor(model)
    return Engine(model, executor, clock or VirtualClock(), emit=events.extend, config=config), events


def make_held_engine(
    model: Model, *, clock: Clock | None = None, config: EngineConfig | None = None
) -> tuple[Engine, list[EngineEvent], HeldExecutor]:
    executor = HeldExecutor(model)
    return *make_engine(model, executor=executor, clock=clock, config=config), executor


def run_to_end(engine: Engine) -> None:
    while engine.step():
        pass


def run_to_end_held(engine: Engine, executor: HeldExecutor) -> None:
    while engine.step() or executor.held:
        executor.run_all()


def samples_of(events: Sequence[EngineEvent], request_id: str) -> list[Samples]:
    return [event.samples for event in events if isinstance(event, AudioReady) and event.request_id == request_id]


def ends_of(events: Sequence[EngineEvent], request_id: str) -> list[RequestFinished]:
    return [event for event in events if isinstance(event, RequestFinished) and event.request_id == request_id]


async def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    """Waits for a condition that another thread or task makes true; raises `TimeoutError` after `timeout_s`."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def spoken(text: str, *, voice: str = "tone_low", speed: float = 1.0) -> Samples:
    """The tone model's audio of one sentence, float32 (n,) at the model's sample rate."""
    return tone.render(SynthesisRequest("any", "any", text, voice, speed))


def spoken_pcm(text: str, *, voice: str = "tone_low", speed: float = 1.0) -> bytes:
    """The same as 16-bit PCM."""
    return pcm_bytes(spoken(text, voice=voice, speed=speed))


class FakeClient:
    """A client of the native protocol without a socket, used in place of a front end.

    `incoming` are the frames that it sends, `received` those that it was sent.  A close is recorded as (code, reason).
    """

    def __init__(self, session_id: str = "sid", max_message_bytes: int = 256 * 1024) -> None:
        self.incoming: asyncio.Queue[str | bytes | None] = asyncio.Queue()
        self.received: list[str | bytes | tuple[int, str]] = []
        self.reads = asyncio.Event()
        """Cleared while the client does not read: writes then wait."""
        self.reads.set()
        self.aborted = False
        self.receiving = 0
        """Calls of `receive` that are waiting."""
        self._max_message_bytes = max_message_bytes
        self._encoder = NativeEncoder(session_id)

    def sends(self, **message: object) -> None:
        self.incoming.put_nowait(json.dumps(message))

    def disconnects(self) -> None:
        self.incoming.put_nowait(None)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(frame) for frame in self.received if isinstance(frame, str)]

    def received_types(self) -> list[str]:
        """The message types of the received frames, in order."""
        return [
            "close" if isinstance(frame, tuple) else "audio" if isinstance(frame, bytes) else json.loads(frame)["type"]
            for frame in self.received
        ]

    async def receive(self) -> Iterable[SessionInput] | None:
        self.receiving += 1
        try:
            data = await self.incoming.get()
        finally:
            self.receiving -= 1
        if data is None:
            return None
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        return (decode(raw, is_binary=isinstance(data, bytes), max_message_bytes=self._max_message_bytes),)

    def encode(self, event: SessionEvent) -> Iterable[Frame]:
        return self._encoder.encode(event)

    def send(self, frame: Frame) -> Coroutine[Any, Any, None] | None:
        return self._write(frame.data if frame.is_binary else frame.data.decode())

    async def close(self, code: int, reason: str) -> None:
        await self._write((code, reason))

    def abort(self) -> None:
        self.aborted = True
        self.disconnects()

    async def _write(self, frame: str | bytes | tuple[int, str]) -> None:
        await self.reads.wait()
        if self.aborted:
            raise ConnectionResetError("the client has disconnected")
        self.received.append(frame)


class FakeEngine:
    """An engine without stages: a test emits the audio of its requests and finishes them, by number of submission."""

    def __init__(self) -> None:
        self.info = tone.info()
        self.requests: list[SynthesisRequest] = []
        self.running: dict[str, EventSink] = {}
        self.cancelled: list[str] = []
        self.sent_samples: dict[str, int] = {}
        self.commands: list[EngineCommand] = []

    def send(self, command: EngineCommand, sink: EventSink | None = None) -> None:
        self.commands.append(command)
        match command:
            case Submit(request=request):
                assert sink is not None
                self.requests.append(request)
                self.running[request.request_id] = sink
            case Cancel(request_id=request_id):
                self._cancel(request_id)
            case EndStream(stream_id=stream_id):
                for request in self.requests:
                    if request.stream_id == stream_id:
                        self._cancel(request.request_id)
            case AudioSent(request_id=request_id, samples=samples):
                self.sent_samples[request_id] = self.sent_samples.get(request_id, 0) + samples

    def _cancel(self, request_id: str) -> None:
        if sink := self.running.pop(request_id, None):
            self.cancelled.append(request_id)
            sink(RequestFinished(request_id, FinishReason.CANCELLED))

    def status(self) -> EngineStatus:
        return EngineStatus(ready=True, reason="ready", active_requests=len(self.running))

    def emit_audio(self, number: int, samples: Samples) -> None:
        request_id = self.requests[number].request_id
        self.running[request_id](AudioReady(request_id, samples))

    def finish(self, number: int, error: RealtimeTTSError | None = None) -> None:
        request_id = self.requests[number].request_id
        reason = FinishReason.COMPLETE if error is None else FinishReason.ERROR
        self.running.pop(request_id)(RequestFinished(request_id, reason, error=error))
