"""Body checks before the body is read: its announced size, and its encoding."""

from collections.abc import Awaitable

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from realtime_tts.errors import RequestTooBig, UnsupportedMediaType

ENCODINGS = ("identity", "gzip", "deflate")
"""aiohttp leaves a body in another encoding as it is, or refuses the connection."""


def body_size_middleware(max_body_bytes: int) -> Middleware:
    """aiohttp stops bodies of unknown size at the same limit, while they are read and decoded (`client_max_size`)."""

    @web.middleware
    def check_body(request: web.Request, handler: Handler) -> Awaitable[web.StreamResponse]:
        if request.content_length is not None and request.content_length > max_body_bytes:
            raise RequestTooBig(f"a request may have {max_body_bytes} bytes")
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() not in ENCODINGS:
            raise UnsupportedMediaType(f"Content-Encoding must be {', '.join(ENCODINGS)}")
        return handler(request)  # not awaited: its frame would be kept for a whole session

    return check_body
