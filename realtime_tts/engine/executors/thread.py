"""Thread executor: a thread for each lane, with one batch in flight on it at a time."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import NamedTuple, TypeAlias

from realtime_tts.engine.executor import Completion, Launch, run
from realtime_tts.engine.stage import Model


class _Release(NamedTuple):
    stage: str
    lane: str
    request_id: str


_Work: TypeAlias = SimpleQueue[Launch | _Release | None]


class LaneExecutor:
    """A daemon thread for each lane.  It calls `on_completed` after each batch, to wake the reader of `completed`."""

    def __init__(self, model: Model, on_completed: Callable[[], None]) -> None:
        self._model = model
        self._on_completed = on_completed
        self._completed: deque[Completion] = deque()
        self._work: dict[str, _Work] = {}
        self._threads: list[threading.Thread] = []
        for lane in model.lanes:
            self._work[lane] = SimpleQueue()
            thread = threading.Thread(target=self._serve, args=(self._work[lane],), name=f"lane-{lane}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def launch(self, launch: Launch) -> None:
        self._work[launch.lane].put(launch)

    def release(self, stage: str, lane: str, request_id: str) -> None:
        self._work[lane].put(_Release(stage, lane, request_id))

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

    def _serve(self, work: _Work) -> None:
        while (item := work.get()) is not None:
            if isinstance(item, Launch):
                self._completed.append(run(self._model, item))
                self._on_completed()
            else:
                self._model.stage(item.stage, item.lane).release(item.request_id)
