"""Simulation: the engine's own loop, policies and model in virtual time, their costs counted and not waited."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from realtime_tts.clock import VirtualClock
from realtime_tts.engine.api import EngineEvent
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.engine import Engine
from realtime_tts.engine.executor import Completion, Launch, run
from realtime_tts.engine.stage import Model


class VirtualExecutor:
    """Computes a batch at once, and returns it when its cost has passed in virtual time.

    `build` makes the model, given the function by which its stages spend their costs.
    """

    def __init__(self, build: Callable[[Callable[[float], None]], Model], clock: VirtualClock) -> None:
        self._clock = clock
        self._spent_s = 0.0
        self._running: list[tuple[float, int, Completion]] = []
        self._order = count()
        self.model = build(self._spend)

    def _spend(self, seconds: float) -> None:
        self._spent_s += seconds

    def launch(self, launch: Launch) -> None:
        self._spent_s = 0.0
        completion = run(self.model, launch)
        heappush(self._running, (self._clock.now_s() + self._spent_s, next(self._order), completion))

    def release(self, stage: str, lane: str, request_id: str) -> None:
        self.model.stage(stage, lane).release(request_id)

    def completed(self) -> list[Completion]:
        completed = []
        while self._running and self._running[0][0] <= self._clock.now_s():
            completed.append(heappop(self._running)[2])
        return completed

    def next_s(self) -> float | None:
        """When the next batch completes."""
        return self._running[0][0] if self._running else None

    def close(self) -> None:
        self._running.clear()


class Simulation:
    """An engine, its clock and its scheduled actions.  Time jumps to the next of them."""

    def __init__(
        self,
        build: Callable[[Callable[[float], None]], Model],
        *,
        emit: Callable[[list[EngineEvent]], None],
        config: EngineConfig | None = None,
    ) -> None:
        """`build` makes the model, given the function by which its stages spend their costs."""
        self.clock = VirtualClock()
        self._executor = VirtualExecutor(build, self.clock)
        self.info = self._executor.model.info
        self.engine = Engine(self._executor.model, self._executor, self.clock, emit=emit, config=config)
        self._actions: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, at_s: float, action: Callable[[], None]) -> None:
        """Calls `action` at a time, which may be now but not before."""
        heappush(self._actions, (at_s, next(self._order), action))

    def run(self, until_s: float) -> None:
        """Advances the time to `until_s`, or until nothing is left to do."""
        while (next_s := self._next_s()) is not None and next_s <= until_s:
            self.clock.advance(max(0.0, next_s - self.clock.now_s()))
            while self._actions and self._actions[0][0] <= self.clock.now_s():
                heappop(self._actions)[2]()
            self.engine.step()
        self.clock.advance(max(0.0, until_s - self.clock.now_s()))

    def _next_s(self) -> float | None:
        times = [self._actions[0][0]] if self._actions else []
        if (completion_s := self._executor.next_s()) is not None:
            times.append(completion_s)
        return min(times, default=None)
