"""Origin check and CORS: which web pages may use the server, and which of them may read its responses."""

from http import HTTPStatus
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from realtime_tts.errors import OriginNotAllowed
from realtime_tts.frontends.native.messages import STREAM_PATH
from realtime_tts.frontends.openai.speech import IGNORED_HEADER
from realtime_tts.server.access import (
    ANY_ORIGIN,
    API_PREFIX,
    HEALTH_PATHS,
    REQUEST_ID_HEADER,
    SAFE_METHODS,
    AccessRules,
)

PREFLIGHT_HEADERS = {
    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, POST, DELETE",
    # All: OpenAI's browser SDK sends x-stainless-* headers, whose names change.  The wildcard excludes Authorization.
    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: "Authorization, Content-Type, *",
    hdrs.ACCESS_CONTROL_MAX_AGE: "600",
}

EXPOSED_HEADERS = ", ".join((REQUEST_ID_HEADER, hdrs.RETRY_AFTER, IGNORED_HEADER))
"""That a page may read, beside those that every page may: Content-Type, Content-Length."""


def origin_middleware(rules: AccessRules) -> Middleware:
    @web.middleware
    async def check_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in HEALTH_PATHS:
            _refuse_foreign_page(request, rules)
            if is_preflight(request, rules):
                return web.Response(status=HTTPStatus.NO_CONTENT, headers=PREFLIGHT_HEADERS)
        return await handler(request)

    return check_origin


def _refuse_foreign_page(request: web.Request, rules: AccessRules) -> None:
    """CORS does not cover WebSockets: any page that a user opens could otherwise speak through this server.

    CORS does not stop a simple POST from being carried out either.
    """
    if request.method in SAFE_METHODS and request.path != STREAM_PATH:
        return
    origin = request.headers.get(hdrs.ORIGIN)
    if not is_origin_allowed(origin, request.headers.get(hdrs.HOST, ""), rules.allowed_origins):
        raise OriginNotAllowed(f"pages from {(origin or '')[:200]} may not use this server")


def is_origin_allowed(origin: str | None, host_header: str, allowed_origins: frozenset[str]) -> bool:
    """Pages of this server and of listed origins.  Clients that are not browsers send no Origin and are allowed."""
    if origin is None or _is_listed(origin, allowed_origins):
        return True
    try:
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and bool(parts.netloc) and parts.netloc == host_header
    except ValueError:
        return False


def _is_listed(origin: str, allowed_origins: frozenset[str]) -> bool:
    return origin in allowed_origins or ANY_ORIGIN in allowed_origins


def is_preflight(request: web.Request, rules: AccessRules) -> bool:
    """Whether a browser asks if a page of a listed origin may call the HTTP API.  It asks without a key."""
    asks = request.method == hdrs.METH_OPTIONS and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
    return asks and bool(cors_headers(request, rules))


def cors_headers(request: web.BaseRequest, rules: AccessRules) -> dict[str, str]:
    """For a response of the HTTP API to a page of a listed origin.  Never for WebSockets, which have no CORS."""
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is None or not _is_listed(origin, rules.allowed_origins):
        return {}
    if not request.path.startswith(API_PREFIX) or request.path == STREAM_PATH:
        return {}
    return {
        hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: origin,
        hdrs.ACCESS_CONTROL_EXPOSE_HEADERS: EXPOSED_HEADERS,
        hdrs.VARY: hdrs.ORIGIN,
    }
