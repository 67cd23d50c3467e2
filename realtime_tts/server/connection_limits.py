"""Connection limits: how many connections may be open, and how long each may take to send and to read."""

import asyncio
import contextlib
import logging
import ssl
import struct
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from aiohttp import hdrs, web

from realtime_tts.errors import ExpectationFailed, InternalError, InvalidRequest, RealtimeTTSError
from realtime_tts.frontends.openai.errors import error_response
from realtime_tts.server.static_files import SECURITY_HEADERS

log = logging.getLogger(__name__)

SPARE_FILES = 256
"""Open files beside connections: weights, logs, the engine's own."""
MIN_READ_BYTES = 4096
"""A client that reads less of a finished response in `read_timeout_s` does not count as reading."""

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
    read_timeout_s: float = 30.0
    """A client that reads nothing of a finished response for once to twice this time is disconnected.  Responses with
    speech have limits of their own, by the time that the speech takes to play."""
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
        self._unread_bytes: dict[GuardedHandler, int] = {}
        """Of finished responses, at the last check.  Until the next request a client can only make them fewer."""
        self._unread_timer: asyncio.TimerHandle | None = None
        self._max_connections = limits.max_connections

    def allow(self, open_files: int) -> None:
        """Lowers the limit of connections to what `open_files` leaves.

        Above it the kernel would refuse new clients, and this guard would never drop an old connection for them.
        """
        self._max_connections = min(self.limits.max_connections, max(open_files - SPARE_FILES, open_files // 2))

    @property
    def max_connections(self) -> int:
        return self._max_connections

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def connected(self, handler: "GuardedHandler", transport: asyncio.Transport) -> None:
        self._open.add(handler)
        self._idle[handler] = transport
        timer = asyncio.get_running_loop().call_later(self.limits.header_timeout_s, self._drop, handler)
        self._header_timers[handler] = timer
        if len(self._open) > self._max_connections:
            self._drop(next(iter(self._idle)))  # if all others are busy, this one

    def disconnected(self, handler: "GuardedHandler") -> None:
        self._open.discard(handler)
        self._unread_bytes.pop(handler, None)
        self._mark_busy(handler)

    def begin(self, request: web.BaseRequest) -> asyncio.TimerHandle | None:
        """Keeps the connection of a request from being dropped for a new one, unless its body takes too long.

        The result is for `end`.  Not a context manager: that would cost memory for as long as a session lasts.
        """
        if not isinstance(request.protocol, GuardedHandler):
            return None
        self._mark_busy(request.protocol)
        self._unread_bytes.pop(request.protocol, None)
        return asyncio.get_running_loop().call_later(self.limits.body_timeout_s, _drop_if_unread, request)

    def end(self, request: web.BaseRequest, body_timer: asyncio.TimerHandle | None) -> None:
        if body_timer is not None:
            body_timer.cancel()
        handler, transport = request.protocol, request.transport
        if isinstance(handler, GuardedHandler) and transport is not None and handler in self._open:
            self._idle[handler] = transport
            self._watch_unread()

    def _watch_unread(self) -> None:
        if self._unread_timer is None:
            loop = asyncio.get_running_loop()
            self._unread_timer = loop.call_later(self.limits.read_timeout_s, self._drop_unread)

    def _drop_unread(self) -> None:
        """Drops connections whose clients do not read; goes on as long as there is something to read."""
        self._unread_timer = None
        before, self._unread_bytes = self._unread_bytes, {}
        for handler, transport in list(self._idle.items()):
            unread_bytes = _unread_bytes(transport)
            if unread_bytes and handler in before and before[handler] - unread_bytes < MIN_READ_BYTES:
                self._drop(handler)
            elif unread_bytes:
                self._unread_bytes[handler] = unread_bytes
        if self._unread_bytes:
            self._watch_unread()

    def stop(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

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


def _unread_bytes(transport: asyncio.Transport) -> int:
    """What the client's machine has not received of a response, 0 once the kernel has all of it.

    With what the kernel holds, where it says so: the kernel asks for more in steps of a third of its buffer, which a
    slow client may take minutes to read.
    """
    unread_bytes = transport.get_write_buffer_size()
    if unread_bytes and sys.platform == "linux":
        import fcntl
        import termios

        with contextlib.suppress(OSError):  # closed in the meantime
            descriptor = transport.get_extra_info("socket").fileno()
            (in_kernel,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))  # tcp(7)
            unread_bytes += in_kernel
    return unread_bytes


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
        if self.transport is None or isinstance(exc, ConnectionError):
            raise ConnectionResetError("the client has disconnected")  # the rest of its request is lost with it
        if status >= 500:
            log.error("a request to %s has failed", request.path, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("a response has begun already")
        bug = status >= 500
        error = InternalError("something went wrong on the server") if bug else InvalidRequest("this is not valid HTTP")
        response = _bare_error_response(error)
        response.force_close()
        return response

    def log_exception(self, *args: object, **kwargs: object) -> None:
        """Called for a body that cannot be decoded, among others: any client could fill the log with these."""
        if not isinstance(kwargs.get("exc_info"), web.RequestPayloadError):
            super().log_exception(*args, **kwargs)


def _bare_error_response(error: RealtimeTTSError) -> web.Response:
    """With the headers that other responses get from the application, which has not seen this request."""
    response = error_response(error)
    response.headers.update(SECURITY_HEADERS)
    return response


async def listen(
    guard: ConnectionGuard, manager: web.Server, host: str, port: int, tls: ssl.SSLContext | None
) -> asyncio.Server:
    """Starts to listen.  aiohttp's own sites do not let us limit connections, or the time of a TLS handshake."""
    allowed_files = allow_open_files(guard.limits.max_connections + SPARE_FILES)
    if allowed_files is not None:
        guard.allow(allowed_files)
        if guard.max_connections < guard.limits.max_connections:
            log.warning(
                "only %d files may be open: at most %d connections instead of %d; raise `ulimit -n`",
                *(allowed_files, guard.max_connections, guard.limits.max_connections),
            )
    # It logs the subprotocols that a client offers, of which one may be a token or, by mistake, a key.
    logging.getLogger("aiohttp.websocket").setLevel(logging.ERROR)
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
        return _bare_error_response(ExpectationFailed("the only Expect header that this server knows is 100-continue"))

    def checked(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        is_known = request.headers.get(hdrs.EXPECT, "100-continue").lower() == "100-continue"
        return (handle if is_known else refuse)(request)  # not awaited: its frame would be kept for a whole session

    return checked


def allow_open_files(required: int) -> int | None:
    """Raises this process's limit of open files as far as possible: 1024, a common limit, is too low.

    Returns the limit; None if there is none.
    """
    if sys.platform == "win32":
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    if soft < required:
        soft = max(soft, required if hard == resource.RLIM_INFINITY else min(required, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft
