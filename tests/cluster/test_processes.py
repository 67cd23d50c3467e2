"""Replicas in processes of their own: killed, silent, replaced; nothing is left after the stop."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import numpy as np
import pytest

from realtime_tts.clock import MonotonicClock
from realtime_tts.cluster.processes import ReplicaProcesses
from realtime_tts.cluster.router import ReplicatedEngine
from realtime_tts.engine.api import AudioReady, AudioSent, EngineEvent, FinishReason, RequestFinished, Submit
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.errors import ModelNotUsable
from tests.fakes import request, until

TEXT = "This is a sentence of some length, so that it takes many frames and some time."
pytestmark = pytest.mark.slow


@asynccontextmanager
async def fleet(
    count: int = 2, *, profile: str = "h200_stateful"
) -> AsyncIterator[tuple[ReplicatedEngine, ReplicaProcesses]]:
    clock = MonotonicClock()
    router = ReplicatedEngine(clock)
    processes = ReplicaProcesses(router, partial(tone.build, profile=profile), EngineConfig(max_wait_s=None), count)
    await processes.start()
    try:
        await until(lambda: ready(router) == count, 60)
        yield router, processes
    finally:
        pids = list(processes.pids.values())
        await processes.stop()
        for pid in pids:
            assert not is_running(pid)


def ready(router: ReplicatedEngine) -> int:
    return sum(replica.ready for replica in router.replicas().values())


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Listener:
    def __init__(self, router: ReplicatedEngine, number: int) -> None:
        self.number = number
        self.parts: list[np.ndarray] = []
        self.ended: asyncio.Future[RequestFinished] = asyncio.get_running_loop().create_future()
        self._router = router
        router.send(Submit(request(number, TEXT)), self._on_event)

    def _on_event(self, event: EngineEvent) -> None:
        if isinstance(event, AudioReady):
            self.parts.append(event.samples)
            self._router.send(AudioSent(event.request_id, len(event.samples), 0.5))
        elif isinstance(event, RequestFinished):
            self.ended.set_result(event)

    async def check(self) -> None:
        async with asyncio.timeout(30):
            end = await self.ended
        assert end.reason is FinishReason.COMPLETE, end.error
        assert np.array_equal(np.concatenate(self.parts), tone.render(request(self.number, TEXT)))


async def test_a_killed_or_silent_process_costs_no_listener_a_sample_and_is_replaced() -> None:
    async with fleet() as (router, processes):
        for number, sent in enumerate((signal.SIGKILL, signal.SIGSTOP)):
            listeners = [Listener(router, 10 * number + each) for each in range(6)]
            await until(lambda listeners=listeners: all(each.parts for each in listeners))  # type: ignore[misc]
            pid = processes.pids["replica-0"]
            os.kill(pid, sent)
            for listener in listeners:
                await listener.check()
            await until(lambda: ready(router) == 2, 60)
            assert processes.pids["replica-0"] != pid


async def test_a_process_is_replaced_while_its_listeners_hear_everything() -> None:
    async with fleet() as (router, processes):
        listeners = [Listener(router, each) for each in range(6)]
        await until(lambda: all(each.parts for each in listeners))
        before = processes.pids["replica-1"]
        await processes.replace("replica-1", drain_s=0.5)
        for listener in listeners:
            await listener.check()
        assert processes.pids["replica-1"] != before
        assert ready(router) == 2


async def test_a_model_that_cannot_be_loaded_is_reported_at_the_start() -> None:
    router = ReplicatedEngine(MonotonicClock())
    processes = ReplicaProcesses(router, partial(tone.build, profile="none"), EngineConfig(), 2)
    with pytest.raises(ModelNotUsable, match="tone has no profile 'none'"):
        await processes.start()
    await processes.stop()
