"""Body size limit: a request that announces too large a body is refused before the body is read."""

from collections.abc import Awaitable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from realtime_tts.errors import RequestTooBig


def body_size_middleware(max_body_bytes: int) -> Middleware:
    """aiohttp stops bodies of unknown size at the same limit, while they are read (`client_max_size`)."""

    @web.middleware
    def check_body_size(request: web.Request, handler: Handler) -> Awaitable[web.StreamResponse]:
        if request.content_length is not None and request.content_length > max_body_bytes:
            raise RequestTooBig(f"a request may have {max_body_bytes} bytes")
        return handler(request)  # not awaited: its frame would be kept for a whole session

    return check_body_size
