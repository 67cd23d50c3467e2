"""Coroutines that are begun outside of a task have the same results as in one."""

import asyncio

import pytest

from realtime_tts.session.eager import Rest, run_until_it_waits


async def add(one: int, other: int, *waits_for: "asyncio.Future[int]") -> int:
    return one + other + sum([await each for each in waits_for])


async def test_without_a_wait_there_is_a_result_at_once() -> None:
    assert run_until_it_waits(add(1, 2)) == 3


async def test_after_a_wait_the_rest_runs_in_a_task() -> None:
    futures = [asyncio.get_running_loop().create_future() for _ in range(2)]
    rest = run_until_it_waits(add(1, 2, *futures))
    assert isinstance(rest, Rest)
    futures[0].set_result(10)  # before anybody awaits the rest
    asyncio.get_running_loop().call_soon(futures[1].set_result, 100)
    assert await rest == 113


async def test_errors_are_raised_at_once_or_by_the_rest() -> None:
    async def fail(after: "asyncio.Future[int] | None" = None) -> int:
        if after is not None:
            await after
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_until_it_waits(fail())
    future = asyncio.get_running_loop().create_future()
    rest = run_until_it_waits(fail(future))
    assert isinstance(rest, Rest)
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
    assert isinstance(rest, Rest)
    task = asyncio.ensure_future(rest)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled
