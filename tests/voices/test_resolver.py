"""Slow look-ups occupy no threads but their own, end at a time limit, and delay no other work."""

import asyncio
import socket
import threading

import pytest

from realtime_tts.voices.resolver import AddressInfo, BoundedResolver
from tests.fakes import until


class NameServer:
    """Names that begin with "slow" are not answered until the test ends; all others are at once."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, family: int) -> list[AddressInfo]:
        self.asked.append(host)
        if host.startswith("slow"):
            self.released.wait(20)
        if host == "unknown":
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", port)),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", port, 0, 0)),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", port, 0, 2)),
        ]


async def test_a_name_has_all_addresses_that_a_public_server_can_have() -> None:
    found = await BoundedResolver(look_up=NameServer()).resolve("example", 443)
    assert [(each["hostname"], each["host"], each["port"]) for each in found] == [
        ("example", "192.0.2.1", 443),
        ("example", "2001:db8::1", 443),
    ]


async def test_an_unknown_or_impossible_name_is_an_error() -> None:
    with pytest.raises(socket.gaierror):
        await BoundedResolver(look_up=NameServer()).resolve("unknown")
    with pytest.raises((OSError, ValueError)):
        await BoundedResolver().resolve("x" * 300)
    assert (await BoundedResolver().resolve("localhost", 80))[0]["port"] == 80


async def test_slow_names_end_at_their_limit_and_leave_the_loop_s_threads_free() -> None:
    server = NameServer()
    resolver = BoundedResolver(max_lookups=4, timeout_s=0.1, look_up=server)
    slow = [resolver.resolve(f"slow{number}") for number in range(40)]
    try:
        outcomes = await asyncio.gather(*slow, return_exceptions=True)
        assert {type(each) for each in outcomes} == {TimeoutError}
        assert len(server.asked) == 4, "no more than there may be"
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), 10) == 1
        with pytest.raises(TimeoutError):
            await resolver.resolve("example")  # still all in use
    finally:
        server.released.set()

    async def answers() -> bool:
        try:
            return bool(await resolver.resolve("example"))
        except TimeoutError:
            return False

    async with asyncio.timeout(10):
        while not await answers():
            pass
    await until(lambda: not [thread for thread in threading.enumerate() if thread.name == "resolver"])


async def test_a_cancelled_look_up_frees_its_thread_when_it_ends() -> None:
    server = NameServer()
    resolver = BoundedResolver(max_lookups=1, timeout_s=10, look_up=server)
    task = asyncio.create_task(resolver.resolve("slow"))
    await until(lambda: server.asked == ["slow"])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    server.released.set()
    assert len(await resolver.resolve("example")) == 2
