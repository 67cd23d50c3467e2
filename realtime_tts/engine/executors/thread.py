"""Where stages run: a thread for each lane, with one batch in flight on it at a time."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

from realtime_tts.engine.stage import Stage, StageInput, StageOutput


@dataclass(frozen=True, slots=True)
class Launch:
    """A batch on its way to a stage."""

    stage: Stage
    inputs: tuple[StageInput, ...]


@dataclass(frozen=True, slots=True)
class Completion:
    """What became of a launch: an output for each input, or what the stage raised."""

    launch: Launch
    outputs: Sequence[StageOutput]
    error: Exception | None = None


class Executor(Protocol):
    def launch(self, launch: Launch) -> None:
        """Starts a batch; the engine never has two in flight on one lane."""
        ...

    def release(self, stage: Stage, request_id: str) -> None:
        """Frees what a stage holds for a request, on its lane, after whatever runs there now."""
        ...

    def completed(self) -> list[Completion]:
        """Batches that have finished since the last call."""
        ...

    def close(self) -> None: ...


def run(launch: Launch) -> Completion:
    """Runs a batch here and now.  The one place where whatever a model raises is caught: it fails its batch."""
    try:
        return Completion(launch, launch.stage.run(launch.inputs))
    except Exception as error:
        return Completion(launch, (), error)


class InlineExecutor:
    """Runs each batch at once in the caller's thread: for tests and tools, where nothing else waits."""

    def __init__(self) -> None:
        self._completed: deque[Completion] = deque()

    def launch(self, launch: Launch) -> None:
        self._completed.append(run(launch))

    def release(self, stage: Stage, request_id: str) -> None:
        stage.release(request_id)

    def completed(self) -> list[Completion]:
        completed = list(self._completed)
        self._completed.clear()
        return completed

    def close(self) -> None:
        self._completed.clear()


class LaneExecutor:
    """A daemon thread for each lane.  `on_completed` is called from it, to wake whoever reads `completed`."""

    def __init__(self, lanes: Sequence[str], on_completed: Callable[[], None]) -> None:
        self._on_completed = on_completed
        self._completed: deque[Completion] = deque()
        self._work: dict[str, SimpleQueue[Launch | tuple[Stage, str] | None]] = {}
        self._threads: list[threading.Thread] = []
        for lane in lanes:
            self._work[lane] = SimpleQueue()
            thread = threading.Thread(target=self._serve, args=(self._work[lane],), name=f"lane-{lane}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def launch(self, launch: Launch) -> None:
        self._work[launch.stage.lane].put(launch)

    def release(self, stage: Stage, request_id: str) -> None:
        self._work[stage.lane].put((stage, request_id))

    def completed(self) -> list[Completion]:
        completed = []
        with contextlib.suppress(IndexError):
            while True:
                completed.append(self._completed.popleft())
        return completed

    def close(self, timeout_s: float = 5.0) -> None:
        """Ends every lane after its batch.  One that is stuck is left behind: its thread is a daemon."""
        for work in self._work.values():
            work.put(None)
        for thread in self._threads:
            thread.join(timeout_s)

    def _serve(self, work: "SimpleQueue[Launch | tuple[Stage, str] | None]") -> None:
        while (item := work.get()) is not None:
            if isinstance(item, Launch):
                self._completed.append(run(item))
                self._on_completed()
            else:
                stage, request_id = item
                stage.release(request_id)
