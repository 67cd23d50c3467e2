"""The engine thread: takes commands from the event loop, steps the engine, brings its events back."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable

from realtime_tts.clock import Clock
from realtime_tts.engine.api import (
    EngineEvent,
    EngineStatus,
    EventSink,
    FinishReason,
    ModelInfo,
    RequestFinished,
    SynthesisRequest,
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


class EngineWorker:
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
        self._commands: deque[Callable[[], None]] = deque()
        self._sinks: dict[str, EventSink] = {}
        self._executor = LaneExecutor(list(dict.fromkeys(s.lane for s in model.stages)), self._wake.set)
        self._engine = Engine(model, self._executor, clock, emit=self._emit, config=config, observer=observer)
        self._info = model.info
        self._status = EngineStatus(ready=False, reason="not started")
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
        self._command(self._stop)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, STOP_TIMEOUT_S)
        await asyncio.to_thread(self._executor.close)

    def submit(self, request: SynthesisRequest, sink: EventSink) -> None:
        self._sinks[request.request_id] = sink
        if self._closed:
            self._loop_of_events().call_soon(self._close_sinks)
        else:
            self._command(lambda: self._engine.submit(request))

    def extend(self, request_id: str, text: str, *, complete: bool) -> None:
        self._command(lambda: self._engine.extend(request_id, text, complete=complete))

    def cancel(self, request_id: str) -> None:
        self._command(lambda: self._engine.cancel(request_id))

    def routed(self, request_id: str, *, samples: int, playout_end_s: float) -> None:
        self._command(lambda: self._engine.routed(request_id, samples=samples, playout_end_s=playout_end_s))

    def playout(self, stream_id: str, playout_end_s: float) -> None:
        self._command(lambda: self._engine.playout(stream_id, playout_end_s))

    def end_stream(self, stream_id: str) -> None:
        self._command(lambda: self._engine.end_stream(stream_id))

    def status(self) -> EngineStatus:
        return self._status

    def _command(self, command: Callable[[], None]) -> None:
        self._commands.append(command)
        self._wake.set()

    def _dispatch(self, events: list[EngineEvent]) -> None:
        for event in events:
            if isinstance(event, RequestFinished):
                sink = self._sinks.pop(event.request_id, None)
            else:
                sink = self._sinks.get(event.request_id)
            if sink is None:
                continue  # told already that the engine is gone
            try:
                sink(event)
            except Exception:
                # One listener's bug: the events behind it belong to others.
                log.exception("the listener of request %s has failed", event.request_id)

    def _close_sinks(self) -> None:
        """Nothing will come from the engine thread any more: every listener still waiting is told so."""
        self._closed = True
        error = EngineUnavailable(f"the engine takes no requests: {self._status.reason}")
        self._dispatch([RequestFinished(id_, FinishReason.ERROR, error=error) for id_ in list(self._sinks)])

    # -- The engine thread ---------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        reason = "stopped"
        try:
            while not self._stopping or self._engine.busy:
                self._wake.wait(self._engine.next_timeout_s())
                self._wake.clear()
                while self._commands:
                    self._commands.popleft()()
                self._engine.step()
                self._status = self._engine.status()
        except Exception:
            # A bug of ours: without this thread nothing can be served, so say so to all, and to /readyz.
            log.exception("the engine thread has failed")
            reason = "the engine thread has failed"
        self._status = EngineStatus(ready=False, reason=reason)
        self._on_loop(self._close_sinks)

    def _stop(self) -> None:
        self._engine.stop()
        self._stopping = True

    def _emit(self, events: list[EngineEvent]) -> None:
        self._status = self._engine.status()  # who hears of an end finds it in the status too
        self._on_loop(lambda: self._dispatch(events))

    def _on_loop(self, callback: Callable[[], None]) -> None:
        loop = self._loop_of_events()
        if not loop.is_closed():
            loop.call_soon_threadsafe(callback)

    def _loop_of_events(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "start() comes first"
        return self._loop
