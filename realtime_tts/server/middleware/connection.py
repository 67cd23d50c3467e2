"""Busy connections: a connection whose request is being served is not dropped as idle, but for an unfinished body."""

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from realtime_tts.server.connection_limits import ConnectionGuard


def connection_middleware(guard: ConnectionGuard) -> Middleware:
    """The first middleware."""

    @web.middleware
    async def mark_busy(request: web.Request, handler: Handler) -> web.StreamResponse:
        body_timer = guard.begin(request)
        try:
            return await handler(request)
        finally:
            guard.end(request, body_timer)

    return mark_busy
