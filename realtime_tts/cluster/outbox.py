"""Outbox of a connection: everything that waits to be sent goes out as one message."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from realtime_tts.cluster import wire
from realtime_tts.engine.api import EngineCommand

Value = TypeVar("Value", bound=EngineCommand | wire.Message)


class Outbox(Generic[Value]):
    """Values in the order in which they were put.  Used from one event loop."""

    def __init__(self) -> None:
        self._values: list[Value] = []
        self._filled = asyncio.Event()

    def put(self, value: Value) -> None:
        self._values.append(value)
        self._filled.set()

    async def write(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Sends until it is cancelled, or until `send` raises."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            values, self._values = self._values, []
            await send(wire.encode(values))
