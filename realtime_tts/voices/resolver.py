"""Name resolution in threads of its own, so that slow name servers delay nothing else."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

MAX_LOOKUPS = 16
"""At once.  The system's resolver waits for a silent name server for 10 to 40 s, and cannot be interrupted."""
TIMEOUT_S = 5.0
"""From the request for an address to the answer, with the wait for a thread."""

AddressInfo: TypeAlias = tuple[Any, Any, int, str, tuple[Any, ...]]
"""As `socket.getaddrinfo` returns them: family, type, protocol, canonical name, address."""


def look_up(host: str, port: int, family: int) -> list[AddressInfo]:
    """By the system's resolver.  Blocks.  Raises `OSError`, and `ValueError` for a name that cannot be one."""
    return [*socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)]


class BoundedResolver(AbstractResolver):
    """For one event loop.  aiohttp's own uses the loop's pool of threads, which voices and uploads share."""

    def __init__(
        self,
        *,
        max_lookups: int = MAX_LOOKUPS,
        timeout_s: float = TIMEOUT_S,
        look_up: Callable[[str, int, int], list[AddressInfo]] = look_up,
    ) -> None:
        self._free = asyncio.Semaphore(max_lookups)
        self._timeout_s = timeout_s
        self._look_up = look_up

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises `OSError`, and `TimeoutError` after the time limit: the thread then works on, and still counts."""
        async with asyncio.timeout(self._timeout_s):
            await self._free.acquire()
            found = await self._in_thread(host, port, family)
        return [
            ResolveResult(
                hostname=host,
                host=address[0],
                port=address[1],
                family=family,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for family, _kind, protocol, _name, address in found
            if family == socket.AF_INET or (family == socket.AF_INET6 and not address[3])  # 3: link-local only
        ]

    def _in_thread(self, host: str, port: int, family: int) -> "asyncio.Future[list[AddressInfo]]":
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[AddressInfo]] = loop.create_future()

        def finish(found: list[AddressInfo], error: Exception | None) -> None:
            self._free.release()
            if answer.done():
                return  # nobody waits any more
            if error is None:
                answer.set_result(found)
            else:
                answer.set_exception(error)

        def work() -> None:
            found: list[AddressInfo] = []
            failure: Exception | None = None
            try:
                found = self._look_up(host, port, family)
            except Exception as error:
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(finish, found, failure)

        # A daemon: an executor's thread would delay the end of the process until the name server answers.
        try:
            threading.Thread(target=work, name="resolver", daemon=True).start()
        except RuntimeError as error:
            self._free.release()
            raise OSError(f"no thread for a look-up: {error}") from None
        return answer

    async def close(self) -> None:
        """Nothing: it is used again."""
