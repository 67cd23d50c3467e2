"""Coroutines that are begun at once, outside of a task, and finished in one if they have to wait.

Python 3.12 has this as `asyncio.Task(eager_start=True)`; this is for 3.11 too.
"""

from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Rest(Generic[T]):
    """The rest of a coroutine that waits for something: to be awaited in a task."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        try:
            while True:
                try:
                    value = yield self._waits_for
                except BaseException as error:
                    self._waits_for = self._coroutine.throw(error)
                else:
                    self._waits_for = self._coroutine.send(value)
        except StopIteration as finished:
            result: T = finished.value
            return result


def run_until_it_waits(coroutine: Coroutine[Any, Any, T]) -> T | Rest[T]:
    """The coroutine's result, if it has one without waiting; it raises what the coroutine raises until then."""
    try:
        return Rest(coroutine, coroutine.send(None))
    except StopIteration as finished:
        result: T = finished.value
        return result
