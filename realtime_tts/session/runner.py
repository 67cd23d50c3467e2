"""The asyncio shell around a session: one reader, one writer, and a watch on the clock."""

import asyncio
import contextvars
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from realtime_tts.clock import Clock
from realtime_tts.engine.api import EngineEvent, EngineHandle, Reference, Submit, SubmitAnswer
from realtime_tts.errors import InternalError, InvalidConfig, RealtimeTTSError, SlowClient
from realtime_tts.session.eager import Rest, run_until_it_waits
from realtime_tts.session.events import AudioChunk, Closed, SessionEvent
from realtime_tts.session.frontend import Frame, FrontEnd
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.observer import NoObserver, SessionObserver
from realtime_tts.session.session import Command, FetchReference, Session
from realtime_tts.session.wakeup import Wakeup

log = logging.getLogger(__name__)

GIVE_UP_GRACE_S = 2.0
"""How long a client that read nothing has to read the error before its connection is dropped."""

FetchesReference = Callable[[str], Awaitable[Reference]]
"""`ref_audio` to the recording that it refers to.  Raises a `RealtimeTTSError`."""


async def no_references(_ref_audio: str) -> Reference:
    raise InvalidConfig("this server takes no recordings", param="ref_audio")


class SessionRunner:
    """Serves one client until either side ends the session.  Every exit path frees its requests at the engine."""

    __slots__ = (
        *("_clock", "_context", "_engines", "_fetch_reference", "_fetching", "_front_end", "_giving_up"),
        *("_is_lost", "_is_writing", "_limits", "_observer", "_outgoing", "_reading", "_reads_until_s", "_rest"),
        *("_session", "_stopped_reading", "_watch_timer", "_watched_until_s", "_writing_since_s"),
    )

    def __init__(
        self,
        front_end: FrontEnd,
        engines: Mapping[str, EngineHandle],
        session: Session,
        clock: Clock,
        limits: SessionLimits,
        *,
        observer: SessionObserver | None = None,
        fetch_reference: FetchesReference = no_references,
    ) -> None:
        """`engines` by the names of the session's models."""
        self._front_end = front_end
        self._engines = engines
        self._session = session
        self._clock = clock
        self._limits = limits
        self._observer = observer or NoObserver()
        self._fetch_reference = fetch_reference
        self._context = contextvars.copy_context()
        """The logging context of this session: engine events arrive outside of it."""
        self._outgoing = Wakeup()
        self._watch_timer: asyncio.TimerHandle | None = None
        self._watched_until_s = clock.now_s()
        self._reading: asyncio.Task[Any] | None = None
        """The task of `run`, while it reads."""
        self._stopped_reading: asyncio.Future[None] | None = None
        self._giving_up: asyncio.Task[None] | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._reads_until_s: float | None = None
        """Set while a write waits: when a client that reads as fast as it plays has read everything written."""
        self._is_writing = False
        self._is_lost = False
        self._rest: Coroutine[Any, Any, None] | None = None
        """Of a write that began outside of the writer task and waits for the client."""
        self._writing_since_s = 0.0
        """When the current write began, if there is one."""

    async def run(self) -> None:
        """Reads in the caller's task; writes in one of its own."""
        self._reading = asyncio.current_task()
        writing = asyncio.create_task(self._write())
        writing.add_done_callback(self._stop_reading)
        self._watch()
        try:
            await self._read()
        except asyncio.CancelledError:
            if self._stopped_reading is None or (self._reading is not None and self._reading.uncancel() > 0):
                raise  # by the caller
            self._stopped_reading.set_result(None)
            if not self._is_lost:
                await asyncio.wait((writing,))  # for the close
        except ConnectionError:
            pass
        except Exception:
            log.exception("session %s failed", self._session.session_id)
        finally:
            self._reading = None
            self._execute(self._session.abandon())
            await self._end_tasks(writing)

    def _stop_reading(self, _writing: "asyncio.Task[None] | None" = None) -> None:
        if self._reading is not None and self._stopped_reading is None:
            self._stopped_reading = asyncio.get_running_loop().create_future()
            self._reading.cancel()

    async def _end_tasks(self, writing: "asyncio.Task[None]") -> None:
        if self._watch_timer is not None:
            self._watch_timer.cancel()
        if self._rest is not None:
            self._rest.close()
        tasks = [task for task in (writing, self._fetching, self._giving_up) if task is not None]
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception) and not isinstance(outcome, ConnectionError):
                log.error("session %s failed", self._session.session_id, exc_info=outcome)

    def end(self, error: RealtimeTTSError) -> None:
        """Ends the session from outside, for example when the server stops."""
        if not self._session.closed:
            self._execute(self._session.fail(error))

    def expire(self, reason: str, deadline_s: float) -> None:
        """Ends the session within `deadline_s`: warns the client, finishes open utterances, then closes."""
        self._execute(self._session.expire(reason, deadline_s))

    def abort(self) -> None:
        """Drops the connection of a client that does not answer; `run` then ends."""
        self._front_end.abort()

    # -- Reading and writing -------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Never waits for synthesis, so a close, a cancel or a disconnect is seen at once.

        After the session's end received data is discarded until the writer has sent the close: a socket closed with
        unread data is reset, and data sent before may be lost.
        """
        while True:
            try:
                items = await self._front_end.receive()
            except RealtimeTTSError as error:
                self._decide(partial(self._session.reject, error))
                items = ()
            if items is None:
                return
            for item in items:
                self._decide(partial(self._session.receive, item))
            if self._session.deadline_s < self._watched_until_s:
                self._watch()
            # Frames that have already arrived are received without a wait: many of them would delay all other sessions.
            await asyncio.sleep(0)
            while self._session.has_backlog:
                self._decide(self._session.process_backlog)
                await asyncio.sleep(0)

    async def _write(self) -> None:
        while True:
            await self._outgoing.wait()
            if self._is_lost:
                raise ConnectionResetError("the client has disconnected")
            self._is_writing = True
            if (rest := self._rest) is not None:
                self._rest = None
                await rest
            while (event := self._session.next()) is not None:
                self._on_write_begin()
                try:
                    await self._send(event)
                except ConnectionError:
                    raise
                except Exception:
                    self._fail()
                if isinstance(event, Closed):
                    return
            self._is_writing = False
            self._reads_until_s = None

    def _on_write_begin(self) -> None:
        self._writing_since_s = self._clock.now_s()
        if self._reads_until_s is None:
            self._reads_until_s = max(self._writing_since_s, self._session.playout_end_s or 0.0)

    def _write_at_once(self, now_s: float) -> None:
        """Writes waiting audio without a switch to the writer task, which would double the cost.

        If the client has to be waited for, the writer task takes over.
        """
        session, front_end = self._session, self._front_end
        while not self._is_writing and (event := session.next_audio()) is not None:
            frames = iter(front_end.encode(event))
            for frame in frames:
                sending = front_end.send(frame)
                if sending is not None and (rest := run_until_it_waits(sending)) is not None:
                    self._on_write_begin()
                    self._is_writing = True
                    self._rest = self._finish(rest, event, frame, frames)
                    self._outgoing.set()
                    return
                self._on_frame_sent(event, frame, now_s if sending is None else self._clock.now_s())

    async def _finish(self, rest: Rest, event: SessionEvent, frame: Frame, frames: Iterator[Frame]) -> None:
        """The rest of a write that `_write_at_once` began."""
        await rest
        self._on_frame_sent(event, frame, self._clock.now_s())
        for frame in frames:
            if not self._session.wants(event):
                return
            await self._send_frame(event, frame)

    def _watch(self) -> None:
        """Calls `on_time` when it is due, and ends a session whose client does not read.

        It runs a few times per limit: a timer for each write would cost more than the write.
        """
        if self._watch_timer is not None:
            self._watch_timer.cancel()
        timeout_s = self._limits.write_timeout_s
        now_s = self._clock.now_s()
        if self._behind_s(now_s) >= timeout_s:
            self._giving_up = asyncio.create_task(self._give_up(timeout_s))
            return
        if not self._session.closed and now_s >= self._session.deadline_s:
            self._decide(self._session.on_time)
        else:
            self._observer.on_send_queue(self._session.unsent_s)
        due_s = math.inf if self._session.closed else self._session.deadline_s
        wait_s = min(max(0.0, due_s - now_s), timeout_s / 4)
        self._watched_until_s = now_s + wait_s
        self._watch_timer = asyncio.get_running_loop().call_later(wait_s, self._watch)

    async def _give_up(self, timeout_s: float) -> None:
        if not self._session.closed:
            self._session.drop_unsent()
            self.end(SlowClient(f"the client has read less than it could play for {timeout_s:g} s"))
            await asyncio.sleep(min(GIVE_UP_GRACE_S, timeout_s))
        log.info("session %s: the client does not read", self._session.session_id)
        self._front_end.abort()
        self._is_lost = True
        self._stop_reading()

    def _behind_s(self, now_s: float) -> float:
        """For how long the client has read nothing, or less than it could play."""
        if self._reads_until_s is None:
            return 0.0
        return now_s - min(self._reads_until_s, self._writing_since_s)

    # -- Acting --------------------------------------------------------------------------------------------------------

    def _execute(self, commands: Iterable[Command]) -> None:
        for command in commands:
            if isinstance(command, FetchReference):
                self._fetching = asyncio.create_task(self._fetch(command.ref_audio))
            else:
                engine = self._engines[self._session.model]
                engine.send(command, self._on_engine if isinstance(command, Submit | SubmitAnswer) else None)
        if waiting := self._session.waiting:
            limits = self._limits
            if waiting > limits.max_queued_messages or self._session.waiting_bytes > limits.max_queued_bytes:
                self._drop_client()
            self._outgoing.set()

    def _drop_client(self) -> None:
        log.info("session %s: too many messages wait for a client that does not read", self._session.session_id)
        self._session.drop_unsent()
        self._execute(self._session.abandon())
        self._front_end.abort()  # ends the reader, and with it the session

    def _on_engine(self, event: EngineEvent) -> None:
        try:
            now_s = self._clock.now_s()
            commands = self._session.on_engine(event, now_s)
            self._write_at_once(now_s)
            if commands or self._session.waiting:
                self._execute(commands)
        except ConnectionError:
            self._is_lost = True
            self._outgoing.set()
        except Exception:
            self._context.copy().run(self._fail)

    def _decide(self, decision: Callable[[float], list[Command]]) -> None:
        """Executes a decision of the session.  An unexpected exception is logged and ends this session alone."""
        try:
            self._execute(decision(self._clock.now_s()))
        except Exception:
            self._fail()

    def _fail(self) -> None:
        """Ends the session after an unexpected exception, which is being handled."""
        log.exception("session %s failed", self._session.session_id)
        self.end(InternalError("something went wrong on the server"))

    async def _fetch(self, ref_audio: str) -> None:
        fetched: Reference | RealtimeTTSError
        try:
            fetched = await self._fetch_reference(ref_audio)
        except RealtimeTTSError as error:
            fetched = error
        except Exception:
            log.exception("session %s: a recording could not be fetched", self._session.session_id)
            fetched = InvalidConfig("the recording could not be fetched", param="ref_audio")
        self._decide(partial(self._session.on_reference, fetched))

    async def _send(self, event: SessionEvent) -> None:
        if isinstance(event, Closed):
            # The close waits for the close frame of the peer, and two tasks cannot read at once.
            self._stop_reading()
            if self._stopped_reading is not None:
                await self._stopped_reading
            await self._front_end.close(event.code, event.reason)
            return
        for frame in self._front_end.encode(event):
            await self._send_frame(event, frame)
            if not self._session.wants(event):
                break
        if not isinstance(event, AudioChunk):
            now_s = self._clock.now_s()
            self._execute(self._session.on_event_sent(event, now_s))
            self._observer.on_event(event, now_s)

    async def _send_frame(self, event: SessionEvent, frame: Frame) -> None:
        sent_s = self._clock.now_s()
        sending = self._front_end.send(frame)
        if sending is not None:
            await sending
            sent_s = self._clock.now_s()
        self._on_frame_sent(event, frame, sent_s)

    def _on_frame_sent(self, event: SessionEvent, frame: Frame, sent_s: float) -> None:
        if frame.audio_s:
            if self._reads_until_s is not None:
                self._reads_until_s += frame.audio_s
            if sent := self._session.on_audio_sent(event, frame.audio_s, sent_s):
                self._engines[self._session.model].send(sent)
