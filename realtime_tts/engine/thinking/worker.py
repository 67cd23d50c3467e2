"""Thinker worker: a thread that steps a Thinker, and replaces one that has failed."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from realtime_tts.clock import Clock
from realtime_tts.engine.thinking.loop import ThinkerLoop, ThinkerRequest, ThinkerStatus
from realtime_tts.engine.thinking.thinker import Thinker, Written
from realtime_tts.errors import EngineUnavailable

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 5.0
FIRST_RESTART_S = 0.1
LONGEST_RESTART_S = 30.0
"""The pause before a new Thinker is made is doubled after each one, until one has run for the longest pause."""

STEP_TIMEOUT_S = 30.0
STUCK = ThinkerStatus(ready=False, reason="the Thinker is stuck")

WrittenSink = Callable[[Sequence[Written]], None]


class ThinkerWorker:
    """Its methods are called from one event loop; `start` binds it."""

    def __init__(
        self,
        make_thinker: Callable[[], Thinker],
        clock: Clock,
        frame_s: float,
        *,
        first_restart_s: float = FIRST_RESTART_S,
        longest_restart_s: float = LONGEST_RESTART_S,
        step_timeout_s: float = STEP_TIMEOUT_S,
    ) -> None:
        """`make_thinker` is called on the worker's thread, and again after a failure and a pause; `frame_s` is the
        playing time of a codec frame.  A step that takes longer than `step_timeout_s` is stuck."""
        self.bounded = True
        """Whether a step must stay within a frame's playing time; the answer engine sets it."""
        self._make_thinker = make_thinker
        self._clock = clock
        self._frame_s = frame_s
        self._first_restart_s = first_restart_s
        self._longest_restart_s = longest_restart_s
        self._step_timeout_s = step_timeout_s
        self._step_began_s: float | None = None
        """While a step runs."""
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._commands: deque[ThinkerRequest | str] = deque()
        """Requests, and the ids of those to cancel."""
        self._status = ThinkerStatus(ready=False, reason="not started")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_written: WrittenSink | None = None
        self._started: asyncio.Future[None] | None = None
        self._thread = threading.Thread(target=self._serve, name="thinker", daemon=True)

    # -- For the event loop --------------------------------------------------------------------------------------------

    async def start(self, on_written: WrittenSink) -> None:
        """Starts the thread and waits for the Thinker.  `on_written` gets each step's output on this event loop.

        Raises what `make_thinker` raises.
        """
        self._loop = asyncio.get_running_loop()
        self._on_written = on_written
        self._started = self._loop.create_future()
        self._thread.start()
        await self._started

    async def stop(self) -> None:
        """Ends all requests as failed, and the thread; one that is stuck in a step is left behind as a daemon."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, STOP_TIMEOUT_S)

    def submit(self, request: ThinkerRequest) -> None:
        self._commands.append(request)
        self._wake.set()

    def cancel(self, request_id: str) -> None:
        self._commands.append(request_id)
        self._wake.set()

    def status(self) -> ThinkerStatus:
        return STUCK if self.is_stuck else self._status

    @property
    def is_stuck(self) -> bool:
        """Whether a step has not returned in time.  The worker continues once it returns."""
        began_s = self._step_began_s
        return began_s is not None and self._clock.now_s() - began_s > self._step_timeout_s

    # -- The worker's thread -------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        loop = self._first()
        pause_s = self._first_restart_s
        while loop is not None:
            began_s = self._clock.now_s()
            try:
                self._step_until_stopped(loop)
            except Exception:
                # A bug in the Thinker, or a device that is lost: its requests fail, and the speech engine continues.
                log.exception("the Thinker has failed and is replaced")
            self._end_all(loop)
            if self._clock.now_s() - began_s > self._longest_restart_s:
                pause_s = self._first_restart_s
            loop, pause_s = self._replacement(pause_s)

    def _first(self) -> ThinkerLoop | None:
        started = self._started
        assert started is not None, "call start() first"
        try:
            loop = self._new_loop()
        except Exception as error:
            self._on_loop(partial(started.set_exception, error))
            return None
        self._on_loop(partial(started.set_result, None))
        return loop

    def _new_loop(self) -> ThinkerLoop:
        loop = ThinkerLoop(self._make_thinker(), self._frame_s)
        self._status = loop.status()
        return loop

    def _step_until_stopped(self, loop: ThinkerLoop) -> None:
        while not self._stopping.is_set():
            if not loop.busy:
                self._wake.wait()
            self._wake.clear()
            while self._commands:
                command = self._commands.popleft()
                if isinstance(command, ThinkerRequest):
                    loop.submit(command)
                else:
                    loop.cancel(command)
            if loop.busy:
                began_s = self._step_began_s = self._clock.now_s()
                written = loop.step(bounded=self.bounded)
                self._step_began_s = None
                loop.observe(self._clock.now_s() - began_s)
                self._status = loop.status()
                self._deliver(written)

    def _end_all(self, loop: ThinkerLoop) -> None:
        self._step_began_s = None
        stopping = self._stopping.is_set()
        reason = "the server is stopping" if stopping else "the Thinker has failed and is being replaced"
        self._status = ThinkerStatus(ready=False, reason=reason)
        while self._commands:
            command = self._commands.popleft()
            if isinstance(command, ThinkerRequest):
                loop.submit(command)  # only to be ended with the others
        self._deliver(loop.end_all(EngineUnavailable(reason)))
        try:
            loop.thinker.close()
        except Exception:
            log.exception("the Thinker could not be closed")

    def _replacement(self, pause_s: float) -> tuple[ThinkerLoop | None, float]:
        """A new Thinker, and the pause before the one after it; None if the worker is to stop."""
        while not self._stopping.wait(pause_s):
            pause_s = min(2 * pause_s, self._longest_restart_s)
            try:
                return self._new_loop(), pause_s
            except Exception:
                log.exception("a new Thinker could not be made; the next attempt follows in %g s", pause_s)
        return None, pause_s

    def _deliver(self, written: Sequence[Written]) -> None:
        on_written = self._on_written
        if written and on_written is not None:
            self._on_loop(lambda: on_written(written))

    def _on_loop(self, callback: Callable[[], None]) -> None:
        assert self._loop is not None, "call start() first"
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)
