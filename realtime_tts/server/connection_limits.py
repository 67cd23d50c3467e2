"""Connection limits: how many connections may be open, and how long each may take to send a request."""

import asyncio
import logging
import ssl
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from aiohttp import hdrs, web

from realtime_tts.errors import ExpectationFailed, InternalError, InvalidRequest
from realtime_tts.frontends.openai.errors import error_response

log = logging.getLogger(__name__)

SPARE_FILES = 256
"""Open files beside connections: weights, logs, the engine's own."""

RequestHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    max_connections: int = 1024
    """TCP connections of any kind.  One more drops the one that has been idle longest."""
    header_timeout_s: float = 10.0
    """From the connection to the end of the first request's header, and for a TLS handshake."""
    body_timeout_s: float = 30.0
    """From the end of the header to the end of the body."""
    keepalive_s: float = 75.0
    """From a response to the end of the next request's header: longer than common proxies keep a connection."""
    max_header_line_bytes: int = 8190
    max_headers: int = 100
    backlog: int = 1024
    """Connections that the kernel holds until the server accepts them."""


class ConnectionGuard:
    """All open TCP connections.  Those without a request in progress are idle: a flood consists of these.

    A cap that refused new connections would let a flood lock everybody out.  This one drops the oldest idle connection.
    An honest client sends its request at once, so it is rarely the one that is dropped.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open: set[GuardedHandler] = set()
        self._idle: dict[GuardedHandler, asyncio.Transport] = {}
        self._header_timers: dict[GuardedHandler, asyncio.TimerHandle] = {}

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def connected(self, handler: "GuardedHandler", transport: asyncio.Transport) -> None:
        self._open.add(handler)
        self._idle[handler] = transport
        timer = asyncio.get_running_loop().call_later(self.limits.header_timeout_s, self._drop, handler)
        self._header_timers[handler] = timer
        if len(self._open) > self.limits.max_connections:
            self._drop(next(iter(self._idle)))  # if all others are busy, this one

    def disconnected(self, handler: "GuardedHandler") -> None:
        self._open.discard(handler)
        self._mark_busy(handler)

    def begin(self, request: web.BaseRequest) -> asyncio.TimerHandle | None:
        """Keeps the connection of a request from being dropped for a new one, unless its body takes too long.

        The result is for `end`.  Not a context manager: that would cost memory for as long as a session lasts.
        """
        if not isinstance(request.protocol, GuardedHandler):
            return None
        self._mark_busy(request.protocol)
        return asyncio.get_running_loop().call_later(self.limits.body_timeout_s, _drop_if_unread, request)

    def end(self, request: web.BaseRequest, body_timer: asyncio.TimerHandle | None) -> None:
        if body_timer is not None:
            body_timer.cancel()
        handler, transport = request.protocol, request.transport
        if isinstance(handler, GuardedHandler) and transport is not None and handler in self._open:
            self._idle[handler] = transport

    def _mark_busy(self, handler: "GuardedHandler") -> None:
        self._idle.pop(handler, None)
        timer = self._header_timers.pop(handler, None)
        if timer is not None:
            timer.cancel()

    def _drop(self, handler: "GuardedHandler") -> None:
        transport = self._idle.get(handler)
        self.disconnected(handler)
        if transport is not None:
            transport.abort()


def _drop_if_unread(request: web.BaseRequest) -> None:
    if not request.content.is_eof() and request.transport is not None:
        request.transport.abort()


class GuardedHandler(web.RequestHandler):
    """aiohttp's HTTP protocol: reports connections to the guard, and responds to errors outside of the middlewares."""

    __slots__ = ("_guard",)

    def __init__(self, guard: ConnectionGuard, manager: web.Server) -> None:
        limits = guard.limits
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.keepalive_s,
            max_line_size=limits.max_header_line_bytes,
            max_field_size=limits.max_header_line_bytes,
            max_headers=limits.max_headers,
            lingering_time=2.0,
            logger=log,
            access_log=None,  # type: ignore[arg-type]  # None turns the access log off
        )
        self._guard = guard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._guard.connected(self, cast(asyncio.Transport, transport))

    def connection_lost(self, exc: BaseException | None) -> None:
        self._guard.disconnected(self)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The response to data that is not HTTP (`status` 400), and to unexpected exceptions.

        Only these exceptions are logged: a request may contain a secret, and any client could fill the log.
        """
        if self.transport is None:
            raise ConnectionResetError("the client has disconnected")  # the rest of its request is lost with it
        if status >= 500:
            log.error("a request to %s has failed", request.path, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("a response has begun already")
        bug = status >= 500
        error = InternalError("something went wrong on the server") if bug else InvalidRequest("this is not valid HTTP")
        response = error_response(error)
        response.force_close()
        return response


async def listen(
    guard: ConnectionGuard, manager: web.Server, host: str, port: int, tls: ssl.SSLContext | None
) -> asyncio.Server:
    """Starts to listen.  aiohttp's own sites do not let us limit connections, or the time of a TLS handshake."""
    allow_open_files(guard.limits.max_connections + SPARE_FILES)
    manager.request_handler = _without_unknown_expectations(manager.request_handler)
    return await asyncio.get_running_loop().create_server(
        lambda: GuardedHandler(guard, manager),
        host,
        port,
        ssl=tls,
        backlog=guard.limits.backlog,
        ssl_handshake_timeout=guard.limits.header_timeout_s if tls is not None else None,
    )


def _without_unknown_expectations(handle: RequestHandler) -> RequestHandler:
    """aiohttp looks at the Expect header before the middlewares run, and fails if it is not UTF-8."""

    async def refuse(_request: web.BaseRequest) -> web.StreamResponse:
        return error_response(ExpectationFailed("the only Expect header that this server knows is 100-continue"))

    def checked(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        is_known = request.headers.get(hdrs.EXPECT, "100-continue").lower() == "100-continue"
        return (handle if is_known else refuse)(request)  # not awaited: its frame would be kept for a whole session

    return checked


def allow_open_files(required: int) -> None:
    """Raises this process's limit of open files as far as possible: 1024, a common limit, is too low."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= required:
        return
    allowed = required if hard == resource.RLIM_INFINITY else min(required, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    if allowed < required:
        log.warning("only %d files may be open, and %d may be needed: raise `ulimit -n`", allowed, required)
