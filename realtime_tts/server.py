"""The HTTP and WebSocket server: accepts sessions, answers for its health, serves the demo page, ends cleanly."""

import asyncio
import errno
import logging
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import WSMsgType, web

from realtime_tts.clock import Clock, unix_time_s
from realtime_tts.engine.api import EngineHandle
from realtime_tts.errors import CannotListen, ServerStopping
from realtime_tts.session.connection import Connection
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.protocol import PROTOCOL, STREAM_PATH
from realtime_tts.session.session import Session

log = logging.getLogger(__name__)

PING_INTERVAL_S = 20.0
UNACKNOWLEDGED_S = 60
CLOSE_TIMEOUT_S = 5.0
RETRY_AFTER_S = 5

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self' ws: wss:",
        "img-src 'self' data:",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    max_sessions: int = 512
    """One more is refused before it is accepted, with 503 and Retry-After."""
    session: SessionLimits = field(default_factory=SessionLimits)


class WebSocketTransport:
    """aiohttp's WebSocket as a session's `Transport`."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self._socket = socket
        self._request = request

    async def receive(self) -> str | bytes | None:
        message = await self._socket.receive()
        if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
            data: str | bytes = message.data
            return data
        return None

    async def send_text(self, data: bytes) -> None:
        await self._socket.send_frame(data, WSMsgType.TEXT)

    async def send_bytes(self, data: bytes) -> None:
        await self._socket.send_bytes(data)

    async def close(self, code: int, reason: str) -> None:
        await self._socket.close(code=code, message=reason.encode())

    def abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()


class Server:
    """Sessions over one engine.  `app` is its aiohttp application."""

    def __init__(self, engine: EngineHandle, clock: Clock, limits: ServerLimits | None = None) -> None:
        self._engine = engine
        self._clock = clock
        self._limits = limits or ServerLimits()
        self._connections: dict[Connection, asyncio.Task[None]] = {}
        self._places_taken = 0
        self._stopping = False
        self.app = web.Application()
        self.app.on_response_prepare.append(_security_headers)
        self.app.add_routes(
            [
                web.get(STREAM_PATH, self._stream),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/v1/audio/voices", self._voices),
                web.get("/", self._demo),
                web.static("/static", demo_folder()),
            ]
        )

    @property
    def active_sessions(self) -> int:
        return len(self._connections)

    async def stop(self) -> None:
        """Tells every client why, and waits for their goodbyes.

        Before aiohttp's own clean-up, which stops reading: it would wait in vain for an answer to each close.
        """
        self._stopping = True
        for connection in self._connections:
            connection.end(ServerStopping("the server is stopping; connect again"))
        if self._connections:
            _done, silent = await asyncio.wait(self._connections.values(), timeout=CLOSE_TIMEOUT_S)
            for serving in silent:
                serving.cancel()

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if refusal := self._refusal(request):
            return refusal
        self._places_taken += 1  # before the first await: all who come at once are counted
        try:
            return await self._session(request)
        finally:
            self._places_taken -= 1

    async def _session(self, request: web.Request) -> web.WebSocketResponse:
        limits = self._limits.session
        # Far above our own limit, so that the session can answer with a typed error; beyond it aiohttp closes 1009.
        websocket = web.WebSocketResponse(
            compress=False,  # permessage-deflate costs 7x the time, and speech does not compress
            max_msg_size=8 * limits.max_message_bytes,
            timeout=CLOSE_TIMEOUT_S,
            protocols=(PROTOCOL,),
        )
        await websocket.prepare(request)
        _give_up_on_silent_peers(request)
        session = Session(
            secrets.token_hex(8),
            self._engine.info,
            limits,
            now_s=self._clock.now_s(),
            expires_at=round(unix_time_s() + limits.session_s, 3),
        )
        transport = WebSocketTransport(websocket, request)
        connection = Connection(transport, self._engine, session, self._clock, limits)
        pings = asyncio.create_task(_ping(websocket))
        serving = self._connections[connection] = asyncio.create_task(connection.run())
        try:
            await serving
        finally:
            pings.cancel()
            del self._connections[connection]
        return websocket

    def _refusal(self, request: web.Request) -> web.Response | None:
        """Why this connection is not accepted, as an HTTP answer; None where it is."""
        origin = request.headers.get("Origin")
        if origin is not None and not _is_same_host(origin, request.host):
            # CORS does not cover WebSockets: any page that a user opens could otherwise speak through this server.
            return _problem(403, "origin_not_allowed", f"pages from {origin[:200]} may not connect to this server")
        status = self._engine.status()
        if self._stopping or not status.ready:
            reason = "stopping" if self._stopping else status.reason
            return _problem(503, "not_ready", f"the server is not ready: {reason}", retry=True)
        if self._places_taken >= self._limits.max_sessions:
            return _problem(503, "overloaded", f"all {self._limits.max_sessions} sessions are taken", retry=True)
        return None

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readyz(self, _request: web.Request) -> web.Response:
        status = self._engine.status()
        ready = status.ready and not self._stopping
        return web.json_response(
            {
                "ready": ready,
                "reason": "stopping" if self._stopping else status.reason,
                "model": self._engine.info.name,
                "active_sessions": self.active_sessions,
                "active_requests": status.active_requests,
                "waiting_requests": status.waiting_requests,
                "places": status.places,
                "costs": None if status.costs is None else asdict(status.costs),
            },
            status=200 if ready else 503,
        )

    async def _voices(self, _request: web.Request) -> web.Response:
        info = self._engine.info
        voices = [{"name": voice.name, "language": voice.language} for voice in info.voices]
        return web.json_response({"model": info.name, "default": info.default_voice, "voices": voices})

    async def _demo(self, _request: web.Request) -> web.FileResponse:
        return web.FileResponse(demo_folder() / "index.html")


@asynccontextmanager
async def listening(server: Server, host: str, port: int) -> AsyncIterator[str]:
    """Serves until the block ends; yields the base URL, with the port that was given out where `port` is 0.

    Raises `CannotListen`.
    """
    runner = web.AppRunner(server.app, access_log=None, shutdown_timeout=CLOSE_TIMEOUT_S)
    await runner.setup()
    try:
        await _listen(runner, host, port)
        port = runner.addresses[0][1]
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        for site in runner.sites:
            await site.stop()
        await server.stop()
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotListen(f"port {port} of {host} is taken: a server runs there already; choose another") from None
        raise CannotListen(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None


def demo_folder() -> Path:
    """web_demo/, which an installed package carries inside itself and a checkout has beside it."""
    inside = Path(str(resources.files("realtime_tts"))) / "web_demo"
    return inside if inside.is_dir() else inside.parent.parent / "web_demo"


def _is_same_host(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc == host
    except ValueError:  # such as an address in one bracket
        return False


def _problem(status: int, code: str, message: str, *, retry: bool = False) -> web.Response:
    headers = {"Retry-After": str(RETRY_AFTER_S)} if retry else None
    return web.json_response({"error": {"code": code, "message": message}}, status=status, headers=headers)


async def _security_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Of every answer, refusals too.  No middleware: aiohttp keeps an application with one for ever, in a cache."""
    response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "no-cache"


async def _ping(websocket: web.WebSocketResponse) -> None:
    """Keeps middleboxes from dropping a quiet socket.

    Not aiohttp's `heartbeat`: that gives a peer up 10 s after a ping, and the answer of one who reads at the pace of
    speech can stand behind a minute of audio.  A peer that is gone is found by TCP, below.
    """
    while True:
        await asyncio.sleep(PING_INTERVAL_S)
        try:
            await websocket.ping()
        except ConnectionError:
            return  # the reader learns of it too


def _give_up_on_silent_peers(request: web.Request) -> None:
    """A peer whose machine does not even acknowledge our pings for a minute is gone."""
    connection = request.transport.get_extra_info("socket") if request.transport is not None else None
    if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_S * 1000)
