"""The engine in virtual time: the same loop, policies and model, with their costs counted and not waited."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from realtime_tts.clock import VirtualClock
from realtime_tts.engine.api import EngineEvent
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.engine import Engine
from realtime_tts.engine.executors.thread import Completion, Launch, run
from realtime_tts.engine.stage import Model, Stage


class VirtualExecutor:
    """Runs a batch at once, and gives it back when its cost has passed in virtual time.

    A model that is built with `spend` as its way of waiting tells here what each step costs.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._spent_s = 0.0
        self._running: list[tuple[float, int, Completion]] = []
        self._order = count()

    def spend(self, seconds: float) -> None:
        self._spent_s += seconds

    def launch(self, launch: Launch) -> None:
        self._spent_s = 0.0
        completion = run(launch)
        heappush(self._running, (self._clock.now_s() + self._spent_s, next(self._order), completion))

    def release(self, stage: Stage, request_id: str) -> None:
        stage.release(request_id)

    def completed(self) -> list[Completion]:
        completed = []
        while self._running and self._running[0][0] <= self._clock.now_s():
            completed.append(heappop(self._running)[2])
        return completed

    def next_s(self) -> float | None:
        """When the next batch comes back."""
        return self._running[0][0] if self._running else None

    def close(self) -> None:
        self._running.clear()


class Simulation:
    """An engine, its clock, and what happens to it.  Time jumps to whatever is next."""

    def __init__(
        self,
        build: Callable[[Callable[[float], None]], Model],
        *,
        emit: Callable[[list[EngineEvent]], None],
        config: EngineConfig | None = None,
    ) -> None:
        """`build` makes the model, given how its steps spend their time."""
        self.clock = VirtualClock()
        self._executor = VirtualExecutor(self.clock)
        self.engine = Engine(
            build(self._executor.spend), self._executor, self.clock, emit=emit, config=config or EngineConfig()
        )
        self._happenings: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, at_s: float, action: Callable[[], None]) -> None:
        """Lets `action` happen at a time, which may be now but not before."""
        heappush(self._happenings, (at_s, next(self._order), action))

    def run(self, until_s: float) -> None:
        """Lets time pass until `until_s`, or until nothing is left to happen."""
        while (next_s := self._next_s()) is not None and next_s <= until_s:
            self.clock.advance(max(0.0, next_s - self.clock.now_s()))
            while self._happenings and self._happenings[0][0] <= self.clock.now_s():
                heappop(self._happenings)[2]()
            self.engine.step()
        self.clock.advance(max(0.0, until_s - self.clock.now_s()))

    def _next_s(self) -> float | None:
        times = [self._happenings[0][0]] if self._happenings else []
        if (completion_s := self._executor.next_s()) is not None:
            times.append(completion_s)
        return min(times, default=None)
