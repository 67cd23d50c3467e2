"""Drain: while the server ends, the API accepts nothing new; requests in progress are counted, to wait for them."""

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from realtime_tts.errors import NotReady
from realtime_tts.server.access import ACCEPTED, API_PREFIX
from realtime_tts.server.sessions import RETRY_AFTER_S, Sessions


def drain_middleware(sessions: Sessions) -> Middleware:
    """The last middleware."""

    @web.middleware
    async def refuse_while_ending(request: web.Request, handler: Handler) -> web.StreamResponse:
        if sessions.ending is not None and request.path.startswith(API_PREFIX):
            raise NotReady(f"the server is not ready: {sessions.ending}", retry_after_s=RETRY_AFTER_S)
        request[ACCEPTED] = True
        sessions.request_begins()
        try:
            return await handler(request)
        finally:
            sessions.request_ends()

    return refuse_while_ending
