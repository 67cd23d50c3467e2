"""The front door: how many connections may be open, how long each may take to ask, and how they are encrypted."""

import asyncio
import logging
import ssl
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, cast

from aiohttp import web

from realtime_tts.errors import UnusableCertificate

log = logging.getLogger(__name__)

SPARE_FILES = 256
"""Beside connections: weights, logs, the engine's own."""

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Admit(Protocol):
    async def __call__(self, request: web.BaseRequest, serve: Handler) -> web.StreamResponse:
        """Answers a request, by `serve` if it is let in."""
        ...


@dataclass(frozen=True, slots=True)
class DoorLimits:
    max_connections: int = 1024
    """TCP connections, whatever they are for.  One more drops the one that has been silent longest."""
    header_timeout_s: float = 10.0
    """From the connection to the end of the first request's header, and for a TLS handshake."""
    body_timeout_s: float = 30.0
    """From the end of the header to the end of the body."""
    keepalive_s: float = 75.0
    """From an answer to the end of the next request's header: longer than common proxies keep a connection."""
    max_header_line_bytes: int = 8190
    max_headers: int = 100
    backlog: int = 1024
    """Connections that the kernel holds before we look."""


class Door:
    """All open TCP connections.  Those without a request at work are idle: what a flood is made of.

    A cap that turned newcomers away would let a flood lock everybody out.  This one drops the oldest idle connection,
    and an honest client asks at once, so it is seldom that.
    """

    def __init__(self, limits: DoorLimits) -> None:
        self.limits = limits
        self._open: set[GuardedHandler] = set()
        self._idle: dict[GuardedHandler, asyncio.Transport] = {}
        self._waiting_for_first: dict[GuardedHandler, asyncio.TimerHandle] = {}

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def entered(self, handler: "GuardedHandler", transport: asyncio.Transport) -> None:
        self._open.add(handler)
        self._idle[handler] = transport
        timer = asyncio.get_running_loop().call_later(self.limits.header_timeout_s, self._drop, handler)
        self._waiting_for_first[handler] = timer
        if len(self._open) > self.limits.max_connections:
            self._drop(next(iter(self._idle)))  # if all others are at work, this one

    def left(self, handler: "GuardedHandler") -> None:
        self._open.discard(handler)
        self._at_work(handler)

    async def serve(self, request: web.BaseRequest, serve: Handler) -> web.StreamResponse:
        """Runs a handler; its connection is not dropped for a newcomer while it works, but for a body that dawdles."""
        handler, transport = request.protocol, request.transport
        if not isinstance(handler, GuardedHandler) or transport is None:
            return await serve(request)
        self._at_work(handler)
        watch = asyncio.get_running_loop().call_later(self.limits.body_timeout_s, _drop_if_unread, request)
        try:
            return await serve(request)
        finally:
            watch.cancel()
            if handler in self._open:
                self._idle[handler] = transport

    def _at_work(self, handler: "GuardedHandler") -> None:
        self._idle.pop(handler, None)
        timer = self._waiting_for_first.pop(handler, None)
        if timer is not None:
            timer.cancel()

    def _drop(self, handler: "GuardedHandler") -> None:
        transport = self._idle.get(handler)
        self.left(handler)
        if transport is not None:
            transport.abort()


def _drop_if_unread(request: web.BaseRequest) -> None:
    if not request.content.is_eof() and request.transport is not None:
        request.transport.abort()


class GuardedHandler(web.RequestHandler):
    """aiohttp's HTTP protocol, which tells the door of its coming and going, and answers for errors in few words."""

    __slots__ = ("_door",)

    def __init__(self, door: Door, manager: web.Server) -> None:
        limits = door.limits
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.keepalive_s,
            max_line_size=limits.max_header_line_bytes,
            max_field_size=limits.max_header_line_bytes,
            max_headers=limits.max_headers,
            lingering_time=2.0,
            logger=log,
            access_log=None,  # type: ignore[arg-type]  # which means: none
        )
        self._door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._door.entered(self, cast(asyncio.Transport, transport))

    def connection_lost(self, exc: BaseException | None) -> None:
        self._door.left(self)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What a stranger sends is not worth a traceback in the log, and may be a secret; a bug of ours is."""
        if self.transport is None:
            raise ConnectionResetError("the client has gone")  # and took the rest of its request along
        if status >= 500:
            log.error("a request to %s has failed", request.path, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        code = "internal_error" if status >= 500 else "invalid_request"
        words = "something went wrong on the server" if status >= 500 else "this is not an HTTP request we accept"
        response = web.json_response({"error": {"code": code, "message": words}}, status=status)
        response.force_close()
        return response


async def open_door(
    door: Door, manager: web.Server, admit: Admit, host: str, port: int, tls: ssl.SSLContext | None
) -> asyncio.Server:
    """Starts to listen.  In place of aiohttp's own sites, which ask nobody before they take a connection.

    Every request of `manager` goes through `admit`.  No middleware: aiohttp keeps an application with one for ever.
    """
    allow_open_files(door.limits.max_connections + SPARE_FILES)
    limits = door.limits
    handle = manager.request_handler

    async def guarded(request: web.BaseRequest) -> web.StreamResponse:
        return await door.serve(request, partial(admit, serve=handle))

    manager.request_handler = guarded
    return await asyncio.get_running_loop().create_server(
        lambda: GuardedHandler(door, manager),
        host,
        port,
        ssl=tls,
        backlog=limits.backlog,
        ssl_handshake_timeout=limits.header_timeout_s if tls is not None else None,
    )


def allow_open_files(wanted: int) -> None:
    """Raises this process's limit as far as it may: 1024, which is common, are fewer than our connections can be."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    if allowed < wanted:
        log.warning("only %d files may be open, and %d may be needed: raise `ulimit -n`", allowed, wanted)


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.2 or later, from two PEM files.  Raises `UnusableCertificate`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for path in (certificate, key):
        try:
            path.open("rb").close()
        except OSError as error:
            raise UnusableCertificate(f"cannot read {path}: {error.strerror}") from None
    try:
        # An empty password: else one that is needed would be asked for at the terminal, for ever.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else str(error)
        raise UnusableCertificate(
            f"{certificate} and {key} are no PEM certificate chain and its private key without a password: {reason}"
        ) from None
    return context
