"""Open sessions: their capacity, and how they end when the server drains or stops."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from realtime_tts.clock import Clock, unix_time_s
from realtime_tts.engine.api import EngineHandle
from realtime_tts.errors import NotReady, Overloaded, RealtimeTTSError, ServerStopping
from realtime_tts.frontends.engines import Engines
from realtime_tts.frontends.native.websocket import CLOSE_TIMEOUT_S
from realtime_tts.ops import logs
from realtime_tts.server.access import CALLER, request_id
from realtime_tts.server.rate_limit import KeyQuota
from realtime_tts.session.frontend import FrontEnd
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.observer import SessionObserver
from realtime_tts.session.runner import FetchesReference, SessionRunner
from realtime_tts.session.session import Session

RETRY_AFTER_S = 5.0


class Sessions:
    """For one event loop.  WebSockets and the HTTP API share the capacity."""

    def __init__(
        self,
        engines: Engines,
        clock: Clock,
        limits: SessionLimits,
        *,
        max_sessions: int,
        observer: SessionObserver,
        fetch_reference: FetchesReference,
        on_refused: Callable[[str], None],
    ) -> None:
        """`on_refused` gets the code of each refusal."""
        self._engines = engines
        self._clock = clock
        self._limits = limits
        self._max_sessions = max_sessions
        self._observer = observer
        self._fetch_reference = fetch_reference
        self._on_refused = on_refused
        self._open: set[SessionRunner] = set()
        self._session_ended = asyncio.Event()
        self._requests = 0
        """In progress, a session being one."""
        self._no_requests = asyncio.Event()
        self._no_requests.set()
        self._drained_by_s: float | None = None
        self._stopping = False

    @property
    def active(self) -> int:
        return len(self._open)

    # -- One session ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def open(
        self, request: web.Request, front_end: FrontEnd, *, model: str | None = None, session_id: str | None = None
    ) -> AsyncIterator[SessionRunner]:
        """A session, ready to `run`, that counts until the block ends.

        `model` is the name of its engine, unless its first config names another; without it the URL of the request
        does.  Raises a `RealtimeTTSError` if the session is refused.
        """
        quota = request[CALLER].quota
        try:
            model = model or self._engines.named_by_url(request.query)
            self._check_capacity(self._engines[model])
            quota.open_session()
        except RealtimeTTSError as error:
            self._on_refused(error.code)
            raise
        runner = self._runner(front_end, model, session_id or request_id(request), quota)
        self._open.add(runner)
        self._end_late_session(runner)
        try:
            yield runner
        finally:
            self._open.remove(runner)
            quota.close_session()
            self._session_ended.set()

    def _check_capacity(self, engine: EngineHandle) -> None:
        status = engine.status()
        if not status.ready:
            raise NotReady(f"the server is not ready: {status.reason}", retry_after_s=RETRY_AFTER_S)
        if len(self._open) >= self._max_sessions:
            raise Overloaded(f"all {self._max_sessions} sessions are in use", retry_after_s=RETRY_AFTER_S)

    def _runner(self, front_end: FrontEnd, model: str, session_id: str, quota: KeyQuota) -> SessionRunner:
        logs.bind_session(session_id)
        engines = self._engines.with_default(model)
        session = Session(
            session_id,
            engines.infos,
            self._limits,
            now_s=self._clock.now_s(),
            expires_at_unix_s=round(unix_time_s() + self._limits.session_s, 3),
            quota=quota,
        )
        return SessionRunner(
            front_end,
            engines,
            session,
            self._clock,
            self._limits,
            observer=self._observer,
            fetch_reference=self._fetch_reference,
        )

    def _end_late_session(self, runner: SessionRunner) -> None:
        """A session that opens after `drain` or `stop` has notified the others."""
        if self._stopping:
            runner.end(_stopping())
        elif self._drained_by_s is not None:
            runner.expire("drain", max(0.0, self._drained_by_s - self._clock.now_s()))

    # -- The end -------------------------------------------------------------------------------------------------------

    @property
    def ending(self) -> str | None:
        """Why new sessions and requests are refused; None while the server runs."""
        if self._stopping:
            return "stopping"
        return None if self._drained_by_s is None else "draining"

    def request_begins(self) -> None:
        self._requests += 1
        self._no_requests.clear()

    def request_ends(self) -> None:
        self._requests -= 1
        if not self._requests:
            self._no_requests.set()

    async def drain(self, deadline_s: float) -> None:
        """Accepts nothing new, lets requests in progress finish, and stops: after `deadline_s` in any case.

        The server still listens meanwhile, to answer new requests with 503.  A cancel stops at once.
        """
        if self._drained_by_s is None:
            self._drained_by_s = self._clock.now_s() + deadline_s
        for runner in list(self._open):
            runner.expire("drain", deadline_s)
        try:
            async with asyncio.timeout(deadline_s):
                await self._no_requests.wait()
        except TimeoutError:
            pass  # `stop` ends the remaining sessions
        finally:
            self._stopping = True
        await self.stop()

    async def stop(self) -> None:
        """Sends every client the reason, and waits for the clients to close.

        It runs before aiohttp's own clean-up, which stops reading and so would never see a client's close frame.
        """
        self._stopping = True
        for runner in list(self._open):
            runner.end(_stopping())
        open_now = set(self._open)
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                while self._open & open_now:
                    self._session_ended.clear()
                    await self._session_ended.wait()
        except TimeoutError:
            for silent in self._open & open_now:
                silent.abort()


def _stopping() -> ServerStopping:
    return ServerStopping("the server is stopping; connect again")
