"""The signal to a writer task: never lost, cleared by the waiter, and usable after a cancelled wait."""

import asyncio

import pytest

from realtime_tts.session.wakeup import Wakeup


async def test_set_before_wait_is_not_lost() -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.set()
    await wakeup.wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wakeup.wait(), 0.01)


async def test_set_wakes_the_waiter() -> None:
    wakeup = Wakeup()
    waiting = asyncio.create_task(wakeup.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    wakeup.set()
    wakeup.set()
    await waiting


async def test_set_after_a_cancelled_wait_is_kept() -> None:
    wakeup = Wakeup()
    waiting = asyncio.create_task(wakeup.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    wakeup.set()
    await wakeup.wait()
