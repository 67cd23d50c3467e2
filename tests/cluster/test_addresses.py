"""Replicas at fixed addresses: the first is waited for, others follow, and another model is not used."""

import asyncio

import pytest

from realtime_tts.clock import MonotonicClock
from realtime_tts.cluster.addresses import ReplicaAddresses
from realtime_tts.cluster.router import ReplicatedEngine
from realtime_tts.engine.models import tone
from tests.cluster.hosted import TOKEN, hosted
from tests.fakes import until


async def test_the_first_replica_is_enough_to_start_and_another_model_is_not_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with hosted() as (first, _engine), hosted(tone.build(reads_ahead=True)) as (other, _other):
        router = ReplicatedEngine(MonotonicClock())
        addresses = [first.removeprefix("http://"), "127.0.0.1:1"]
        replicas = ReplicaAddresses(router, addresses, TOKEN, silent_s=2.0)
        async with asyncio.timeout(10):
            await replicas.start()
        assert list(router.replicas()) == addresses[:1]
        wrong = ReplicaAddresses(router, [other], TOKEN, silent_s=2.0)
        starting = asyncio.create_task(wrong.start())
        await until(lambda: "has another model" in caplog.text)
        assert list(router.replicas()) == addresses[:1]
        await wrong.stop()
        await asyncio.gather(starting, return_exceptions=True)
        await replicas.stop()
