"""Security and CORS headers of every response, and the request id of the API's."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from realtime_tts.server.access import API_PREFIX, REQUEST_ID_HEADER, AccessRules, request_id
from realtime_tts.server.middleware.origin import cors_headers
from realtime_tts.server.static_files import SECURITY_HEADERS


def add_headers(rules: AccessRules) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """A callback for `Application.on_response_prepare`: it sees error responses and WebSocket handshakes too."""

    async def add(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(SECURITY_HEADERS)
        response.headers.update(cors_headers(request, rules))
        if request.path.startswith(API_PREFIX):
            response.headers[REQUEST_ID_HEADER] = request_id(request)

    return add
