"""Coroutines that start at once, outside of a task, and continue in a task if they have to wait.

Python 3.12 has this as `asyncio.Task(eager_start=True)`; this module also supports 3.11.
"""

from collections.abc import Coroutine, Generator
from typing import Any


class Rest:
    """The rest of a coroutine that has to wait: to be awaited in a task."""

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[Any, Any, None], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        try:
            while True:
                try:
                    value = yield self._waits_for
                except BaseException as error:
                    self._waits_for = self._coroutine.throw(error)
                else:
                    self._waits_for = self._coroutine.send(value)
        except StopIteration:
            return


def run_until_it_waits(coroutine: Coroutine[Any, Any, None]) -> Rest | None:
    """None if the coroutine finishes without waiting; raises what the coroutine raises until then."""
    try:
        return Rest(coroutine, coroutine.send(None))
    except StopIteration:
        return None
