"""The HTTP and WebSocket server: accepts sessions, answers for its health, serves the demo page, ends cleanly."""

import asyncio
import errno
import secrets
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace

from aiohttp import hdrs, web

from realtime_tts.clock import Clock, unix_time_s
from realtime_tts.engine.api import EngineHandle, EngineStatus
from realtime_tts.engine.config import EngineConfig
from realtime_tts.errors import CannotListen, QuotaExceeded, ServerStopping
from realtime_tts.frontends.native.messages import STREAM_PATH
from realtime_tts.frontends.native.websocket import (
    CLOSE_TIMEOUT_S,
    ExplainedWebSocket,
    NativeFrontEnd,
    give_up_on_silent_peers,
    ping,
)
from realtime_tts.frontends.openai.api import HttpApi, HttpLimits
from realtime_tts.frontends.openai.api import add_routes as add_http_routes
from realtime_tts.ops import logs
from realtime_tts.server.access import (
    API_PREFIX,
    CALLER,
    METRICS_PATH,
    Access,
    AccessRules,
    Refused,
    over_quota,
    problem,
)
from realtime_tts.server.auth import TOKEN_LIFE_S, TokenStore
from realtime_tts.server.connection_limits import Door, DoorLimits, Handler, open_door
from realtime_tts.server.rate_limit import KeyQuota
from realtime_tts.server.static_files import FILE_PATH, SECURITY_HEADERS, demo_file, demo_page
from realtime_tts.session.frontend import FrontEnd
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.observer import NoObserver, SessionObserver
from realtime_tts.session.runner import FetchesReference, SessionRunner, no_references
from realtime_tts.session.session import Session
from realtime_tts.text.unicode import printable
from realtime_tts.voices.store import VoiceStore

RETRY_AFTER_S = 5
SPARE_CONNECTIONS = 512
"""For pages, health, metrics, the HTTP API and those who are just coming."""
TOKEN_PATH = "/v1/realtime/tokens"


@dataclass(frozen=True, slots=True)
class ServerLimits:
    max_sessions: int = 512
    """One more is refused before it is accepted, with 503 and Retry-After."""
    max_body_bytes: int = 16 * 1024 * 1024
    """Of an HTTP request; more is refused with 413."""
    token_life_s: float = TOKEN_LIFE_S
    session: SessionLimits = field(default_factory=SessionLimits)
    door: DoorLimits | None = None
    """None: the default ones, with `SPARE_CONNECTIONS` more than there may be sessions."""

    def of_the_door(self) -> DoorLimits:
        return self.door or DoorLimits(max_connections=self.max_sessions + SPARE_CONNECTIONS)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What the server works with, beside its engine.  By default nobody is asked for a key."""

    access: AccessRules = field(default_factory=AccessRules)
    observer: SessionObserver = field(default_factory=NoObserver)
    fetch_reference: FetchesReference = no_references
    http: HttpLimits = field(default_factory=HttpLimits)
    voices: VoiceStore | None = None
    """Where uploaded voices are kept."""
    voice_aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of voices, over HTTP, such as OpenAI's."""
    metrics_text: Callable[[], bytes] | None = None
    """Prometheus text for GET /metrics."""
    on_refused: Callable[[str], None] | None = None
    """Told the code of each refusal before accept."""
    scheduler: str = EngineConfig().scheduler
    """By what name the engine's way of scheduling is known."""
    compared: Mapping[str, EngineHandle] = field(default_factory=dict)
    """Engines of the same model that schedule otherwise, by name: for sessions that ask for one, by `?scheduler=`."""


class Server:
    """Sessions over an engine, or one compared with it.  `app`, for aiohttp, is only guarded inside `listening`."""

    def __init__(
        self,
        engine: EngineHandle,
        clock: Clock,
        limits: ServerLimits | None = None,
        options: ServerOptions | None = None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._limits = limits or ServerLimits()
        self._options = ServerOptions() if options is None else options
        assert self._options.scheduler not in self._options.compared, "two engines of one name"
        self._engines = {self._options.scheduler: engine, **self._options.compared}
        self._tokens = TokenStore(clock, self._limits.token_life_s)
        self._access = Access(self._options.access, self._tokens, clock)
        self._connections: dict[SessionRunner, asyncio.Event] = {}
        """Those that are served, each with the event of its end."""
        self._at_work = 0
        self._quiet = asyncio.Event()
        """Set while no request is at work, a session being one."""
        self._quiet.set()
        self._drained_by_s: float | None = None
        self._stopping = False
        self.door = Door(self._limits.of_the_door())
        self.app = web.Application(client_max_size=self._limits.max_body_bytes)
        self.app.on_response_prepare.append(self._dress)
        self._add_routes()

    def _add_routes(self) -> None:
        self.app.add_routes(
            [
                web.get(STREAM_PATH, self._stream),
                web.post(TOKEN_PATH, self._issue_token),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/v1/demo", self._offered),
                web.get("/", demo_page),
                web.get(FILE_PATH, demo_file),
            ]
        )
        if self._options.metrics_text is not None:
            self.app.add_routes([web.get(METRICS_PATH, self._metrics)])
        options = self._options
        self._http = HttpApi(
            self._engine, self.open_session, options.http, store=options.voices, aliases=options.voice_aliases
        )
        add_http_routes(self.app, self._http)

    @property
    def active_sessions(self) -> int:
        return len(self._connections)

    # -- How it ends ---------------------------------------------------------------------------------------------------

    async def drain(self, deadline_s: float) -> None:
        """Takes nothing new, lets what has begun come to its end, and stops: after `deadline_s` in any case.

        Still listens meanwhile, to answer newcomers with 503.  May be cancelled, to stop at once.
        """
        if self._drained_by_s is None:
            self._drained_by_s = self._clock.now_s() + deadline_s
        for connection in list(self._connections):
            connection.expire("drain", deadline_s)
        try:
            async with asyncio.timeout(deadline_s):
                await self._quiet.wait()
        except TimeoutError:
            pass  # those who are left are told by `stop`
        finally:
            self._stopping = True
        await self.stop()

    async def stop(self) -> None:
        """Tells every client why, and waits for their goodbyes.

        Before aiohttp's own clean-up, which stops reading: it would wait in vain for an answer to each close.
        """
        self._stopping = True
        for connection in list(self._connections):
            connection.end(ServerStopping("the server is stopping; connect again"))
        connections = dict(self._connections)
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                for over in connections.values():
                    await over.wait()
        except TimeoutError:
            for silent in self._connections.keys() & connections.keys():
                silent.abort()

    @property
    def _ending(self) -> str | None:
        if self._stopping:
            return "stopping"
        return None if self._drained_by_s is None else "draining"

    # -- Every request -------------------------------------------------------------------------------------------------

    async def admit(self, request: web.BaseRequest, serve: Handler) -> web.StreamResponse:
        """Refuses, answers a preflight, or lets the application serve a request."""
        try:
            caller = self._access.admit(request)
            if preflight := self._access.preflight(request):
                return self._dressed(request, preflight)
            if caller is not None:
                request[CALLER] = caller
            if request.path.startswith(API_PREFIX) and self._ending:
                raise _not_now("not_ready", f"the server is not ready: {self._ending}")
            self._check_size(request)
        except Refused as refused:
            return self._answer(request, refused)
        self._at_work += 1
        self._quiet.clear()
        try:
            return await serve(request)
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._quiet.set()

    def _check_size(self, request: web.BaseRequest) -> None:
        """What is announced too large is not even read.  What is not announced, aiohttp stops at the same limit."""
        limit = self._limits.max_body_bytes
        if request.content_length is not None and request.content_length > limit:
            raise Refused(413, "request_too_big", f"a request may have {limit} bytes")

    def _answer(self, request: web.BaseRequest, refused: Refused) -> web.Response:
        if self._options.on_refused is not None:
            self._options.on_refused(refused.wire_code)
        return self._dressed(request, problem(refused))

    def _dressed(self, request: web.BaseRequest, response: web.Response) -> web.Response:
        response.headers.update(SECURITY_HEADERS)
        response.headers.update(self._access.cors_headers(request))
        return response

    async def _dress(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Every answer of the application: those of `admit` do not come by here."""
        response.headers.update(SECURITY_HEADERS)
        response.headers.update(self._access.cors_headers(request))

    # -- Sessions ------------------------------------------------------------------------------------------------------

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        session_id = secrets.token_hex(8)
        # Far above our own limit, so that the session can answer for most of what is too big.
        websocket = ExplainedWebSocket(request, session_id, 8 * self._limits.session.max_message_bytes)
        try:
            limit = self._limits.session.max_message_bytes
            front_end = NativeFrontEnd(websocket, request, session_id, limit)
            async with self.open_session(request, front_end, session_id) as connection:
                await websocket.prepare(request)
                give_up_on_silent_peers(request)
                pings = asyncio.create_task(ping(websocket))
                try:
                    await connection.run()
                finally:
                    pings.cancel()
        except Refused as refused:
            return self._dressed(request, problem(refused))
        return websocket

    @asynccontextmanager
    async def open_session(
        self, request: web.Request, front_end: FrontEnd, session_id: str | None = None
    ) -> AsyncIterator[SessionRunner]:
        """A place, with the connection that takes it, ready to `run`; given back when the block ends.

        For WebSockets and plain HTTP alike.  Raises `Refused` where there is none.
        """
        quota = request[CALLER].quota
        with ExitStack() as held:
            try:
                engine = self._engine_for(request)
                self._refuse_when_full(engine)
                held.enter_context(quota.session())
            except (Refused, QuotaExceeded) as error:
                refused = over_quota(error) if isinstance(error, QuotaExceeded) else error
                if self._options.on_refused is not None:
                    self._options.on_refused(refused.wire_code)
                raise refused from None
            connection = self._connect(front_end, engine, session_id or secrets.token_hex(8), quota)
            over = self._connections[connection] = asyncio.Event()
            self._catch_up(connection)
            try:
                yield connection
            finally:
                del self._connections[connection]
                over.set()

    def _engine_for(self, request: web.Request) -> EngineHandle:
        name = request.query.get("scheduler", self._options.scheduler)
        if name not in self._engines:
            words = f"scheduler: {printable(name[:80])!r} is not offered; there is {', '.join(self._engines)}"
            raise Refused(400, "unknown_scheduler", words)
        return self._engines[name]

    def _connect(self, front_end: FrontEnd, engine: EngineHandle, session_id: str, quota: KeyQuota) -> SessionRunner:
        limits = self._limits.session
        logs.bind_session(session_id)
        session = Session(
            session_id,
            {engine.info.name: engine.info},
            limits,
            now_s=self._clock.now_s(),
            expires_at_unix_s=round(unix_time_s() + limits.session_s, 3),
            quota=quota,
        )
        return SessionRunner(
            front_end,
            {engine.info.name: engine},
            session,
            self._clock,
            limits,
            observer=self._options.observer,
            fetch_reference=self._options.fetch_reference,
        )

    def _catch_up(self, connection: SessionRunner) -> None:
        """For one that was let in, and not here yet, when the others were told of the end."""
        if self._stopping:
            connection.end(ServerStopping("the server is stopping; connect again"))
        elif self._drained_by_s is not None:
            connection.expire("drain", max(0.0, self._drained_by_s - self._clock.now_s()))

    def _refuse_when_full(self, engine: EngineHandle) -> None:
        status = engine.status()
        if not status.ready:
            raise _not_now("not_ready", f"the server is not ready: {status.reason}")
        if len(self._connections) >= self._limits.max_sessions:
            raise _not_now("overloaded", f"all {self._limits.max_sessions} sessions are taken")

    async def _issue_token(self, request: web.Request) -> web.Response:
        key = request[CALLER].key
        if key is None:
            refused = Refused(404, "tokens_not_needed", "this server asks for no key: connect without a token")
            return self._answer(request, refused)
        try:
            token = self._tokens.issue(key)
        except QuotaExceeded as error:
            return self._answer(request, over_quota(error))
        return web.json_response({"token": token, "expires_at": round(unix_time_s() + self._tokens.life_s, 3)})

    # -- The rest ------------------------------------------------------------------------------------------------------

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    def engine_status(self) -> EngineStatus:
        """All engines as one: ready while each of them is.  Places and costs are those of the default."""
        statuses = {name: engine.status() for name, engine in self._engines.items()}
        default = statuses[self._options.scheduler]
        unready = [f"{name}: {each.reason}" for name, each in statuses.items() if not each.ready]
        return replace(
            default,
            ready=not unready,
            reason=unready[0] if default.ready and unready else default.reason,
            active_requests=sum(each.active_requests for each in statuses.values()),
            waiting_requests=sum(each.waiting_requests for each in statuses.values()),
        )

    async def _readyz(self, _request: web.Request) -> web.Response:
        status = self.engine_status()
        ready = status.ready and not self._ending
        return web.json_response(
            {
                "ready": ready,
                "reason": self._ending or status.reason,
                "model": self._engine.info.name,
                "active_sessions": self.active_sessions,
                "active_requests": status.active_requests,
                "waiting_requests": status.waiting_requests,
                "places": status.places,
                "costs": None if status.costs is None else asdict(status.costs),
            },
            status=200 if ready else 503,
        )

    async def _metrics(self, _request: web.Request) -> web.Response:
        assert self._options.metrics_text is not None, "there is no route without it"
        headers = {hdrs.CONTENT_TYPE: "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=self._options.metrics_text(), headers=headers)

    async def _offered(self, _request: web.Request) -> web.Response:
        return web.json_response({"schedulers": list(self._engines), "clones": self._http.takes_voices})


@asynccontextmanager
async def listening(server: Server, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serves until the block ends; yields the base URL, with the port that was given out where `port` is 0.

    Raises `CannotListen`.
    """
    runner = web.AppRunner(server.app, access_log=None, shutdown_timeout=CLOSE_TIMEOUT_S)
    await runner.setup()
    listener = None
    try:
        listener = await _listen(server, runner, host, port, tls)
        port = listener.sockets[0].getsockname()[1]
        yield f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        if listener is not None:
            listener.close()
        await server.stop()
        await runner.cleanup()


async def _listen(
    server: Server, runner: web.AppRunner, host: str, port: int, tls: ssl.SSLContext | None
) -> asyncio.Server:
    assert runner.server is not None, "the runner is set up first"
    try:
        return await open_door(server.door, runner.server, server.admit, host, port, tls)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotListen(f"port {port} of {host} is taken: a server runs there already; choose another") from None
        raise CannotListen(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None


def _not_now(code: str, message: str) -> Refused:
    return Refused(503, code, message, {hdrs.RETRY_AFTER: str(RETRY_AFTER_S)})
