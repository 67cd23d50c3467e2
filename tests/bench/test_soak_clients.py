"""Every behaviour of the soak clients ends without a fault on a real server, and leaves nothing behind."""

import asyncio
from random import Random

import pytest

from bench.soak_clients import BEHAVIOURS, FATAL, INVALID, conversation
from realtime_tts.engine.models import tone
from tests.fakes import slots, until
from tests.serving import tone_server


@pytest.mark.slow
async def test_every_behaviour_ends_without_a_fault() -> None:
    model = tone.build()
    async with tone_server(model) as (url, server):
        for seed in range(3):
            behaviours = [(name, behaviour) for name, (behaviour, _weight) in BEHAVIOURS.items()]
            found = await asyncio.gather(
                *(behaviour(url, Random(f"{seed}/{name}")) for name, behaviour in behaviours), return_exceptions=True
            )
            faults = {name: each for (name, _), each in zip(behaviours, found, strict=True) if each is not None}
            assert not faults, faults
        await until(lambda: server.active_sessions == 0)
        await until(lambda: slots(model) == 0)


async def test_each_invalid_frame_is_an_error_and_each_fatal_one_closes() -> None:
    async with tone_server() as (url, _server):
        async with conversation(url) as client:
            client.check.expected_errors = len(INVALID)
            for number, frame in enumerate(INVALID):
                await client.send_frame(frame)
                await client.until("error")
                if number % 5 == 4:
                    await client.speak(["Hello."])  # ten invalid messages in a row would be too many
        for frame, code in FATAL:
            async with conversation(url) as client:
                client.check.expected_errors = 1
                await client.send_frame(frame)
                assert await client.close_code() == code
