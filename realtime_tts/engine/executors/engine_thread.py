"""Engine thread: applies commands from the event loop, steps the engine, and returns its events to the loop."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable

from realtime_tts.clock import Clock
from realtime_tts.engine.api import (
    EngineCommand,
    EngineEvent,
    EngineStatus,
    EventSink,
    FinishReason,
    ModelInfo,
    RequestFinished,
    Submit,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.engine import Engine
from realtime_tts.engine.executors.thread import LaneExecutor
from realtime_tts.engine.observer import EngineObserver
from realtime_tts.engine.stage import Model
from realtime_tts.errors import EngineUnavailable

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 5.0
"""How long a stop waits for the batches that run; a stage that takes longer is left behind in its daemon thread."""


class EngineThread:
    """An `EngineHandle` on a thread of this process.  Its methods are called from one event loop; `start` binds it."""

    def __init__(
        self,
        model: Model,
        clock: Clock,
        *,
        config: EngineConfig | None = None,
        observer: EngineObserver | None = None,
    ) -> None:
        self._wake = threading.Event()
        self._clock = clock
        self._commands: deque[tuple[EngineCommand, float]] = deque()
        """Each with the time at which it was sent."""
        self._sinks: dict[str, EventSink] = {}
        self._executor = LaneExecutor(model, self._wake.set)
        self._engine = Engine(model, self._executor, clock, emit=self._emit, config=config, observer=observer)
        self._info = model.info
        self._status = EngineStatus(ready=False, reason="not started")
        self._stop_requested = False
        self._stopping = False
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._serve, name="engine", daemon=True)

    # -- For the event loop --------------------------------------------------------------------------------------------

    @property
    def info(self) -> ModelInfo:
        return self._info

    def start(self) -> None:
        """Starts the thread; events will reach the loop that runs now."""
        self._loop = asyncio.get_running_loop()
        self._status = self._engine.status()
        self._thread.start()

    async def stop(self) -> None:
        """Ends every request as failed, waits for what runs to be freed, then ends the threads."""
        self._stop_requested = True
        self._wake.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, STOP_TIMEOUT_S)
        await asyncio.to_thread(self._executor.close)

    def send(self, command: EngineCommand, sink: EventSink | None = None) -> None:
        if isinstance(command, Submit):
            assert sink is not None, "a request's events need a sink"
            self._sinks[command.request.request_id] = sink
            if self._closed:
                self._loop_of_events().call_soon(self._close_sinks)
                return
        self._commands.append((command, self._clock.now_s()))
        self._wake.set()

    def status(self) -> EngineStatus:
        return self._status

    def _dispatch(self, events: list[EngineEvent]) -> None:
        for event in events:
            if isinstance(event, RequestFinished):
                sink = self._sinks.pop(event.request_id, None)
            else:
                sink = self._sinks.get(event.request_id)
            if sink is None:
                continue  # it got its last event when the engine stopped
            try:
                sink(event)
            except Exception:
                # A bug in one sink: the events behind it belong to others.
                log.exception("the sink of request %s has failed", event.request_id)

    def _close_sinks(self) -> None:
        """The engine thread has ended: ends every request that still waits for events."""
        self._closed = True
        error = EngineUnavailable(f"the engine accepts no requests: {self._status.reason}")
        self._dispatch([RequestFinished(id_, FinishReason.ERROR, error=error) for id_ in list(self._sinks)])

    # -- The engine thread ---------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        reason = "stopped"
        try:
            while not self._stopping or self._engine.busy:
                self._wake.wait(self._engine.next_timeout_s())
                self._wake.clear()
                while self._commands:
                    self._engine.handle(*self._commands.popleft())
                if self._stop_requested and not self._stopping:
                    self._engine.stop()
                    self._stopping = True
                self._engine.step()
                self._status = self._engine.status()
        except Exception:
            # A bug in the engine: without this thread nothing can be served, so all requests and /readyz report it.
            log.exception("the engine thread has failed")
            reason = "the engine thread has failed"
        self._status = EngineStatus(ready=False, reason=reason)
        self._on_loop(self._close_sinks)

    def _emit(self, events: list[EngineEvent]) -> None:
        self._status = self._engine.status()  # so that the status is not older than these events
        self._on_loop(lambda: self._dispatch(events))

    def _on_loop(self, callback: Callable[[], None]) -> None:
        loop = self._loop_of_events()
        if not loop.is_closed():
            loop.call_soon_threadsafe(callback)

    def _loop_of_events(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "call start() first"
        return self._loop
