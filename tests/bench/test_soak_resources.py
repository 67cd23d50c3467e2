"""Leaks are found in the figures of a server, and an idle server has none."""

import os
import sys
from dataclasses import replace

import pytest

from bench.soak_resources import POOL_THREADS, Sample, leaks, memory_growth, read_sample
from realtime_tts.ops.metrics import Metrics
from realtime_tts.server.app import ServerOptions
from tests.serving import tone_server

IDLE = Sample(0.0, 80.0, descriptors=14, threads=4, tasks=4, sessions=0, requests=0)


def over_time(memory_mb: list[float], seconds: float = 600.0) -> list[Sample]:
    step_s = seconds / (len(memory_mb) - 1)
    return [replace(IDLE, at_s=number * step_s, memory_mb=each) for number, each in enumerate(memory_mb)]


def test_memory_is_compared_after_the_warm_up_and_only_in_a_long_run() -> None:
    rising = [80.0 + number for number in range(61)]
    assert memory_growth(over_time(rising)) == pytest.approx(136.5 / 94.5 - 1, abs=0.03)
    warms_up = [40.0] * 10 + [100.0] * 51
    assert memory_growth(over_time(warms_up)) == 0.0
    assert memory_growth(over_time(rising, seconds=100.0)) is None
    assert memory_growth([]) is None


def test_each_resource_that_is_left_is_a_leak() -> None:
    steady = over_time([100.0] * 61)
    assert leaks(IDLE, steady, IDLE) == []
    assert leaks(IDLE, steady, replace(IDLE, threads=IDLE.threads + POOL_THREADS, descriptors=10)) == []
    for after, word in (
        (replace(IDLE, descriptors=15), "descriptors"),
        (replace(IDLE, tasks=5), "tasks"),
        (replace(IDLE, threads=IDLE.threads + POOL_THREADS + 1), "threads"),
        (replace(IDLE, sessions=1), "sessions"),
        (replace(IDLE, requests=1), "requests"),
    ):
        (found,) = leaks(IDLE, steady, after)
        assert word in found
    assert "memory" in leaks(IDLE, over_time([100.0 + number for number in range(61)]), IDLE)[0]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_the_figures_of_a_process_are_read() -> None:
    import asyncio

    metrics = Metrics()
    metrics.watch_tasks(lambda: len(asyncio.all_tasks()))
    metrics.watch_sessions(lambda: 3)
    async with tone_server(options=ServerOptions(metrics_text=metrics.text)) as (url, server):
        metrics.watch_engine("tone", server.engine_status)
        sample = await asyncio.to_thread(read_sample, os.getpid(), url, 7.0)
    assert (sample.at_s, sample.sessions, sample.requests) == (7.0, 3, 0)
    assert sample.memory_mb > 10
    assert min(sample.descriptors, sample.threads, sample.tasks) > 2
