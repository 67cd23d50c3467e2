"""A signal to one waiting task."""

import asyncio


class Wakeup:
    """Like `asyncio.Event`, but for one waiter, and cleared by it.  An event takes 0.7 KiB per session."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Returns after `set`: at once, if that was called since the last `wait`."""
        if not self._is_set:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self._is_set = False
