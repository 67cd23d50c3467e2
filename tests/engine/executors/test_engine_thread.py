"""Engine thread: events reach the event loop, cancels free everything, and every request gets its end."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.api import (
    AudioReady,
    Cancel,
    EngineEvent,
    FinishReason,
    RequestFinished,
    Submit,
    SynthesisRequest,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.policy import SCHEDULERS, Batch, Scheduler, Snapshot
from realtime_tts.engine.stage import Model
from realtime_tts.errors import EngineUnavailable, SynthesisFailed
from tests.fakes import Gate, request, slots, until, wrapped


@asynccontextmanager
async def running(model: Model, config: EngineConfig | None = None) -> AsyncIterator[EngineThread]:
    worker = EngineThread(model, MonotonicClock(), config=config)
    worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


class Listener:
    def __init__(self) -> None:
        self.events: list[EngineEvent] = []
        self.finished: asyncio.Future[RequestFinished] = asyncio.get_running_loop().create_future()

    def __call__(self, event: EngineEvent) -> None:
        assert not self.finished.done(), "nothing may follow the end"
        self.events.append(event)
        if isinstance(event, RequestFinished):
            self.finished.set_result(event)

    async def end(self) -> RequestFinished:
        return await asyncio.wait_for(self.finished, 20)


async def test_parallel_requests_all_give_exact_audio_in_order() -> None:
    model = tone.build()
    async with running(model) as worker:
        requests = [request(i, f"Sentence number {i}.") for i in range(40)]
        listeners = [Listener() for _ in requests]
        for each, listener in zip(requests, listeners, strict=True):
            worker.send(Submit(each), listener)
        for each, listener in zip(requests, listeners, strict=True):
            assert (await listener.end()).reason is FinishReason.COMPLETE
            audio = [event.samples for event in listener.events if isinstance(event, AudioReady)]
            assert np.array_equal(np.concatenate(audio), tone.render(each))
    assert slots(model) == 0


async def test_many_cancels_leave_nothing_behind() -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.0002))
    rng = random.Random(0)
    async with running(model) as worker:
        listeners = []
        for number in range(300):
            listener = Listener()
            listeners.append(listener)
            worker.send(Submit(request(number, "x" * rng.randint(1, 80))), listener)
            if rng.random() < 0.5:
                await asyncio.sleep(rng.random() * 0.002)
            worker.send(Cancel(f"r{rng.randint(0, number)}"))
        ends = [await listener.end() for listener in listeners]
        assert {end.reason for end in ends} == {FinishReason.COMPLETE, FinishReason.CANCELLED}
        assert worker._sinks == {}
        assert worker.status().active_requests == 0
    assert slots(model) == 0


async def test_a_hung_stage_fails_its_requests_and_readiness() -> None:
    gate = Gate()
    async with running(wrapped(tone.build(), "code2wav", gate), EngineConfig(stage_timeout_s=0.2)) as worker:
        listener = Listener()
        worker.send(Submit(request()), listener)
        assert isinstance((await listener.end()).error, SynthesisFailed)
        assert not worker.status().ready
        gate.opened.set()
        await until(lambda: worker.status().ready)


async def test_stopping_ends_every_request_and_later_ones_too() -> None:
    gate = Gate()
    worker = EngineThread(wrapped(tone.build(), "talker", gate), MonotonicClock())
    worker.start()
    before, after = Listener(), Listener()
    worker.send(Submit(request(0)), before)
    await asyncio.to_thread(gate.entered.wait, 10)
    stopping = asyncio.create_task(worker.stop())
    assert isinstance((await before.end()).error, EngineUnavailable)
    gate.opened.set()
    await stopping
    worker.send(Submit(request(1)), after)
    assert isinstance((await after.end()).error, EngineUnavailable)
    assert not worker.status().ready


async def test_stopping_while_requests_run_frees_all_stages() -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.002, a1_s=0.002))
    worker = EngineThread(model, MonotonicClock())
    worker.start()
    listeners = [Listener() for _ in range(5)]
    for number, listener in enumerate(listeners):
        worker.send(Submit(request(number, "A sentence that takes a while to say.")), listener)
    await until(lambda: slots(model) >= 5)
    await worker.stop()
    ends = [await listener.end() for listener in listeners]
    assert all(isinstance(end.error, EngineUnavailable) for end in ends)
    assert slots(model) == 0


async def test_a_bug_in_the_engine_thread_ends_all_requests(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_snapshot: Snapshot, _lane: str) -> Batch | None:
        raise ZeroDivisionError

    monkeypatch.setitem(SCHEDULERS, "deadline", Scheduler(broken, admission=False))
    worker = EngineThread(tone.build(), MonotonicClock())
    worker.start()
    listener = Listener()
    worker.send(Submit(request()), listener)
    assert isinstance((await listener.end()).error, EngineUnavailable)
    assert not worker.status().ready
    await worker.stop()
    assert "the engine thread has failed" in caplog.text


async def test_a_bug_in_one_sink_does_not_affect_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_event: EngineEvent) -> None:
        raise RuntimeError("boom")

    async with running(tone.build()) as worker:
        listener = Listener()
        worker.send(Submit(request(0)), broken)
        worker.send(Submit(SynthesisRequest("r1", "s1", "Hello.", "tone_low")), listener)
        assert (await listener.end()).reason is FinishReason.COMPLETE
    assert "the sink of request r0 has failed" in caplog.text
