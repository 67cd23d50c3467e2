"""Coroutines started outside of a task: same effects and errors as inside one."""

import asyncio

import pytest

from realtime_tts.session.eager import run_until_it_waits


async def collect(into: list[int], *waits_for: "asyncio.Future[int]") -> None:
    into.extend([await each for each in waits_for])


async def test_a_coroutine_without_a_wait_finishes_at_once() -> None:
    assert run_until_it_waits(collect([])) is None


async def test_after_a_wait_the_rest_runs_in_a_task() -> None:
    futures = [asyncio.get_running_loop().create_future() for _ in range(2)]
    collected: list[int] = []
    rest = run_until_it_waits(collect(collected, *futures))
    assert rest is not None
    futures[0].set_result(10)  # before the rest is awaited
    asyncio.get_running_loop().call_soon(futures[1].set_result, 100)
    await rest
    assert collected == [10, 100]


async def test_errors_are_raised_at_once_or_by_the_rest() -> None:
    async def fail(after: "asyncio.Future[int] | None" = None) -> None:
        if after is not None:
            await after
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_until_it_waits(fail())
    future = asyncio.get_running_loop().create_future()
    rest = run_until_it_waits(fail(future))
    assert rest is not None
    future.set_result(0)
    with pytest.raises(ValueError, match="broken"):
        await rest


async def test_a_cancel_reaches_the_rest() -> None:
    cancelled = False

    async def wait() -> None:
        nonlocal cancelled
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled = True
            raise

    rest = run_until_it_waits(wait())
    assert rest is not None
    task = asyncio.ensure_future(rest)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled
