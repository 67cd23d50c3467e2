"""The HTTP and WebSocket server: its parts, middlewares and routes."""

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import hdrs, web

from realtime_tts.clock import Clock, unix_time_s
from realtime_tts.engine.api import EngineHandle, EngineStatus, ReplicaStatus
from realtime_tts.engine.config import EngineConfig
from realtime_tts.errors import CannotListen, RealtimeTTSError, TokensNotNeeded
from realtime_tts.frontends.engines import Engines
from realtime_tts.frontends.native.messages import STREAM_PATH
from realtime_tts.frontends.native.websocket import CLOSE_TIMEOUT_S, NativeFrontEnd, WebSocket
from realtime_tts.frontends.openai.api import HttpApi, HttpLimits
from realtime_tts.frontends.openai.chat import ChatApi
from realtime_tts.frontends.openai.chat_request import FetchesUrl
from realtime_tts.server import api_docs
from realtime_tts.server.access import CALLER, METRICS_PATH, AccessRules, request_id
from realtime_tts.server.connection_limits import ConnectionGuard, ConnectionLimits, listen
from realtime_tts.server.middleware.auth import auth_middleware
from realtime_tts.server.middleware.body_size import body_size_middleware
from realtime_tts.server.middleware.connection import connection_middleware
from realtime_tts.server.middleware.drain import drain_middleware
from realtime_tts.server.middleware.errors import errors_middleware
from realtime_tts.server.middleware.headers import add_headers
from realtime_tts.server.middleware.host import host_middleware
from realtime_tts.server.middleware.origin import origin_middleware
from realtime_tts.server.sessions import Sessions
from realtime_tts.server.static_files import add_routes as add_page_routes
from realtime_tts.server.tokens import TOKEN_LIFE_S, TokenStore
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.observer import NoObserver, SessionObserver
from realtime_tts.session.runner import FetchesReference, no_references
from realtime_tts.voices.store import VoiceStore

SPARE_CONNECTIONS = 512
"""Beside sessions: for pages, health, metrics, the HTTP API and clients that are connecting."""
TOKEN_PATH = "/v1/realtime/tokens"


def _ignore(_code: str) -> None: ...


@dataclass(frozen=True, slots=True)
class ServerLimits:
    max_sessions: int = 512
    """One more is refused before it is accepted, with 503 and Retry-After."""
    max_body_bytes: int = 16 * 1024 * 1024
    """Of an HTTP request; more is refused with 413."""
    token_life_s: float = TOKEN_LIFE_S
    session: SessionLimits = field(default_factory=SessionLimits)
    connection: ConnectionLimits | None = None
    """None: the default ones, with `SPARE_CONNECTIONS` more than `max_sessions`."""

    def of_connections(self) -> ConnectionLimits:
        return self.connection or ConnectionLimits(max_connections=self.max_sessions + SPARE_CONNECTIONS)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What the server works with, beside its engines.  By default there is no authentication."""

    access: AccessRules = field(default_factory=AccessRules)
    observer: SessionObserver = field(default_factory=NoObserver)
    fetch_reference: FetchesReference = no_references
    fetch_media: FetchesUrl | None = None
    """Fetches audio and images of a conversation by URL; None refuses URLs."""
    http: HttpLimits = field(default_factory=HttpLimits)
    voices: VoiceStore | None = None
    """Where uploaded voices are kept."""
    metrics_text: Callable[[], bytes] | None = None
    """Prometheus text for GET /metrics."""
    on_refused: Callable[[str], None] = _ignore
    """Gets the code of each refusal of a request or session before it begins."""
    scheduler: str = EngineConfig().scheduler
    """That of engines whose name has none (`kokoro`, not `kokoro@policy_c`)."""


class Server:
    """Sessions over engines by name, of which the first is the default."""

    def __init__(
        self,
        engines: Mapping[str, EngineHandle],
        clock: Clock,
        limits: ServerLimits | None = None,
        options: ServerOptions | None = None,
    ) -> None:
        self._limits = limits or ServerLimits()
        self._options = options or ServerOptions()
        self.engines = Engines(engines, self._options.scheduler)
        self.connections = ConnectionGuard(self._limits.of_connections())
        self.sessions = Sessions(
            self.engines,
            clock,
            self._limits.session,
            max_sessions=self._limits.max_sessions,
            observer=self._options.observer,
            fetch_reference=self._options.fetch_reference,
            on_refused=self._options.on_refused,
        )
        self._tokens = TokenStore(clock, self._limits.token_life_s)
        self._http = HttpApi(
            self.engines,
            self.sessions.open,
            self._options.http,
            store=self._options.voices,
        )
        self.chat = ChatApi(self.engines, self.sessions.open, clock, fetch_url=self._options.fetch_media)
        self.app = self._application(clock)

    def _application(self, clock: Clock) -> web.Application:
        rules = self._options.access
        app = web.Application(
            client_max_size=self._limits.max_body_bytes,
            middlewares=[
                connection_middleware(self.connections),
                errors_middleware(self._options.on_refused),
                host_middleware(rules),
                origin_middleware(rules),
                auth_middleware(rules.keys, self._tokens, clock),
                body_size_middleware(self._limits.max_body_bytes),
                drain_middleware(self.sessions),
            ],
        )
        app.on_response_prepare.append(add_headers(rules))
        app.on_cleanup.append(self._release_engines)
        app.add_routes(
            [
                web.get(STREAM_PATH, self._stream),
                web.post(TOKEN_PATH, self._issue_token),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/v1/demo", self._demo),
                *self._http.routes(),
                *self.chat.routes(),
                *api_docs.routes(),
            ]
        )
        add_page_routes(app)
        if self._options.metrics_text is not None:
            app.add_routes([web.get(METRICS_PATH, self._metrics)])
        return app

    async def _release_engines(self, _app: web.Application) -> None:
        # aiohttp caches the middleware chains of up to 1024 handlers, and with them their applications.
        self.engines.release()

    @property
    def active_sessions(self) -> int:
        return self.sessions.active

    def engine_status(self) -> EngineStatus:
        return self.engines.status()

    async def drain(self, deadline_s: float) -> None:
        await self.sessions.drain(deadline_s)

    # -- Handlers ------------------------------------------------------------------------------------------------------

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        session_id = request_id(request)
        # Far above the session's own limit, so that the session can respond to most messages that are too big.
        max_message_bytes = self._limits.session.max_message_bytes
        websocket = WebSocket(request, 8 * max_message_bytes)
        front_end = NativeFrontEnd(websocket, session_id, max_message_bytes)
        async with self.sessions.open(request, front_end, session_id=session_id) as runner:
            try:
                response = await websocket.accept()
                await runner.run()
            finally:
                websocket.release()
        return response

    async def _issue_token(self, request: web.Request) -> web.Response:
        try:
            token = self._token_for(request)
        except RealtimeTTSError as error:
            self._options.on_refused(error.code)
            raise
        return web.json_response({"token": token, "expires_at": round(unix_time_s() + self._tokens.life_s, 3)})

    def _token_for(self, request: web.Request) -> str:
        key = request[CALLER].key
        if key is None:
            raise TokensNotNeeded("this server requires no key: connect without a token")
        return self._tokens.issue(key)

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readyz(self, _request: web.Request) -> web.Response:
        status = self.engines.status()
        ready = status.ready and self.sessions.ending is None
        body = {
            "ready": ready,
            "reason": self.sessions.ending or status.reason,
            "model": self.engines.default_name,
            "active_sessions": self.sessions.active,
            **_status_fields(status),
            "models": [
                {
                    "model": name,
                    "scheduler": self.engines.scheduler_of(name),
                    "ready": (each := engine.status()).ready,
                    "reason": each.reason,
                    **_status_fields(each),
                }
                for name, engine in self.engines.items()
            ],
        }
        return web.json_response(body, status=200 if ready else 503)

    async def _metrics(self, _request: web.Request) -> web.Response:
        assert self._options.metrics_text is not None, "there is no route without it"
        headers = {hdrs.CONTENT_TYPE: "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=self._options.metrics_text(), headers=headers)

    async def _demo(self, _request: web.Request) -> web.Response:
        return web.json_response({"schedulers": self.engines.schedulers(), "clones": self._http.accepts_voices})


def _status_fields(status: EngineStatus) -> dict[str, object]:
    return {
        "active_requests": status.active_requests,
        "waiting_requests": status.waiting_requests,
        "queued_requests": status.queued_requests,
        "places": status.capacity,
        "costs": None if status.costs is None else status.costs.report(),
        **({"replicas": [_replica_fields(replica) for replica in status.replicas]} if status.replicas else {}),
    }


def _replica_fields(replica: ReplicaStatus) -> dict[str, object]:
    return {
        "name": replica.name,
        "ready": replica.ready,
        "reason": replica.reason,
        "listeners": replica.listeners,
        "places": replica.capacity,
    }


@asynccontextmanager
async def listening(server: Server, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serves until the block ends; yields the base URL, with the port that the system chose if `port` is 0.

    Raises `CannotListen`.
    """
    # A client that disconnects cancels its handler, and with it the work in the engine.
    runner = web.AppRunner(server.app, handler_cancellation=True, access_log=None, shutdown_timeout=CLOSE_TIMEOUT_S)
    await runner.setup()
    listener = None
    try:
        listener = await _listen(server, runner, host, port, tls)
        port = listener.sockets[0].getsockname()[1]
        yield f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        if listener is not None:
            listener.close()
        await server.sessions.stop()
        await runner.cleanup()
        server.connections.stop()


async def _listen(
    server: Server, runner: web.AppRunner, host: str, port: int, tls: ssl.SSLContext | None
) -> asyncio.Server:
    assert runner.server is not None, "the runner is set up first"
    try:
        return await listen(server.connections, runner.server, host, port, tls)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotListen(
                f"port {port} of {host} is in use, perhaps by another server; choose another port"
            ) from None
        raise CannotListen(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None
