"""An engine in a second process behind an `EngineHandle`: commands and events are serialisable."""

import asyncio
import multiprocessing
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import cast

import numpy as np

from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    Cancel,
    EndStream,
    EngineCommand,
    EngineEvent,
    EngineHandle,
    EngineStatus,
    EventSink,
    Extend,
    FinishReason,
    ModelInfo,
    PlayoutEnd,
    RequestFinished,
    Samples,
    Submit,
    SynthesisRequest,
    TextReady,
    WordsReady,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models import tone
from realtime_tts.errors import Overloaded

CONFIG = EngineConfig(max_wait_s=None, max_requests=100)


def make_engine(*, thinker: bool) -> EngineThread:
    return EngineThread(tone.build(reads_ahead=True, thinker=thinker), MonotonicClock(), config=CONFIG)


def serve(pipe: Connection, thinker: bool) -> None:
    """The second process: commands in, events out, a status with each event."""
    asyncio.run(_serve(pipe, thinker))


async def _serve(pipe: Connection, thinker: bool) -> None:
    engine, loop = make_engine(thinker=thinker), asyncio.get_running_loop()
    engine.start()
    pipe.send((engine.info, engine.status()))

    def emit(event: EngineEvent) -> None:
        pipe.send((event, engine.status()))

    def read() -> None:
        # In a thread that only reads, so that the other process can always write, also while this one writes.
        while (command := pipe.recv()) is not None:
            loop.call_soon_threadsafe(engine.send, command, emit if isinstance(command, Submit) else None)

    await asyncio.to_thread(read)
    await engine.stop()


class RemoteEngine:
    """An `EngineHandle` at the other end of a pipe."""

    def __init__(self, pipe: Connection, info: ModelInfo, status: EngineStatus) -> None:
        self.info = info
        self._pipe = pipe
        self._status = status
        self._sinks: dict[str, EventSink] = {}
        asyncio.get_running_loop().add_reader(pipe.fileno(), self._receive)

    def send(self, command: EngineCommand, sink: EventSink | None = None) -> None:
        if isinstance(command, Submit):
            assert sink is not None
            self._sinks[command.request.request_id] = sink
        self._pipe.send(command)

    def status(self) -> EngineStatus:
        return self._status

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe.fileno())
        self._pipe.send(None)

    def _receive(self) -> None:
        while self._pipe.poll():
            event, self._status = cast("tuple[EngineEvent, EngineStatus]", self._pipe.recv())
            finished = isinstance(event, RequestFinished)
            (self._sinks.pop if finished else self._sinks.__getitem__)(event.request_id)(event)


@asynccontextmanager
async def remote_engine(*, thinker: bool = False) -> AsyncIterator[EngineHandle]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, thinker), daemon=True)
    process.start()
    there.close()
    try:
        engine = RemoteEngine(here, *await asyncio.to_thread(here.recv))
        yield engine
        engine.close()
        await asyncio.to_thread(process.join, 20)
        assert process.exitcode == 0
    finally:
        process.kill()
        here.close()


@asynccontextmanager
async def local_engine(*, thinker: bool = False) -> AsyncIterator[EngineHandle]:
    engine = make_engine(thinker=thinker)
    engine.start()
    yield engine
    await engine.stop()


async def spoken(engine: EngineHandle, requests: list[SynthesisRequest]) -> dict[str, list[EngineEvent]]:
    """All events by request.  A part of each text is sent later, and all audio is reported as sent."""
    events: dict[str, list[EngineEvent]] = {request.request_id: [] for request in requests}
    ends = {request.request_id: asyncio.Event() for request in requests}

    def on_event(event: EngineEvent) -> None:
        events[event.request_id].append(event)
        if isinstance(event, AudioReady):
            engine.send(AudioSent(event.request_id, len(event.samples), lead_s=1.0))
        elif isinstance(event, RequestFinished):
            ends[event.request_id].set()

    for request in requests:
        engine.send(Submit(replace(request, text=request.text[:9], text_complete=False)), on_event)
        engine.send(Extend(request.request_id, request.text[9:], True))
    async with asyncio.timeout(60):
        for end in ends.values():
            await end.wait()
    return events


def audio(events: list[EngineEvent]) -> Samples:
    return np.concatenate([event.samples for event in events if isinstance(event, AudioReady)])


def other_events(events: list[EngineEvent]) -> list[object]:
    """Text, words and the reason of the end."""
    text = "".join(event.text for event in events if isinstance(event, TextReady))
    words = [event.words for event in events if isinstance(event, WordsReady)]
    return [text, words, *(event.reason for event in events if isinstance(event, RequestFinished))]


async def test_a_hundred_sentences_from_a_second_process_are_bit_identical() -> None:
    texts = [f"This is sentence {number}, {'which is longer, ' * (number % 5)}and it ends." for number in range(100)]
    requests = [SynthesisRequest(f"r{n}", f"s{n}", text, tone.VOICES[n % 2].name) for n, text in enumerate(texts)]
    async with local_engine() as local, remote_engine() as remote:
        assert remote.info == local.info
        expected, received = await spoken(local, requests), await spoken(remote, requests)
        assert remote.status().active_requests == 0
        costs = remote.status().costs
        assert costs is not None
        assert costs.decode.base_s >= 0
    for request in requests:
        name = request.request_id
        assert np.array_equal(audio(received[name]), audio(expected[name])), name
        assert other_events(received[name]) == other_events(expected[name]), name
        assert other_events(received[name])[-1] is FinishReason.COMPLETE, name


async def test_every_command_and_event_crosses_processes() -> None:
    async with remote_engine(thinker=True) as engine:
        events = await spoken(engine, [SynthesisRequest("r", "s", "What is the time?", "tone_low")])
        assert other_events(events["r"])[0] == tone.answer("What is the time?")
        engine.send(PlayoutEnd("s", lead_s=0.0))
        waiting = [SynthesisRequest(f"w{n}", f"w{n}", "x", "tone_low", text_complete=False) for n in range(101)]
        ends: asyncio.Queue[EngineEvent] = asyncio.Queue()
        for request in waiting:
            engine.send(Submit(request), ends.put_nowait)
        async with asyncio.timeout(20):
            refused = await ends.get()
            assert isinstance(refused, RequestFinished)
            assert isinstance(refused.error, Overloaded)
            assert refused.error.message == "the engine already has 100 requests"
            engine.send(Cancel("w0"))
            engine.send(EndStream("w1"))
            reasons = {event.request_id: event.reason for event in [await ends.get(), await ends.get()]}  # type: ignore[union-attr]
        assert reasons == {"w0": FinishReason.CANCELLED, "w1": FinishReason.CANCELLED}
        for request in waiting[2:100]:
            engine.send(Cancel(request.request_id))
