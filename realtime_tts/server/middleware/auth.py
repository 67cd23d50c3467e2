"""Authentication: the API key or single-use token of a request, and the account that it belongs to."""

from collections.abc import Awaitable

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from realtime_tts.clock import Clock
from realtime_tts.frontends.native.messages import STREAM_PATH
from realtime_tts.server.access import API_PREFIX, CALLER, METRICS_PATH, Caller
from realtime_tts.server.api_keys import ApiKey, KeyStore
from realtime_tts.server.rate_limit import KeyQuota, QuotaBook, QuotaLimits
from realtime_tts.server.tokens import TOKEN_PROTOCOL, TokenStore


def auth_middleware(keys: KeyStore | None, tokens: TokenStore, clock: Clock) -> Middleware:
    """Sets `CALLER`.  The demo page and health need no key."""
    quotas = QuotaBook(clock)
    anonymous = Caller("anonymous", KeyQuota(QuotaLimits(), clock), None)

    @web.middleware
    def authenticate(request: web.Request, handler: Handler) -> Awaitable[web.StreamResponse]:
        if request.path.startswith(API_PREFIX) or request.path == METRICS_PATH:
            if keys is None:
                request[CALLER] = anonymous
            else:
                key = _key_of(request, keys, tokens)
                request[CALLER] = Caller(key.name, quotas.of(key.name, key.limits), key)
        return handler(request)  # not awaited: its frame would be kept for a whole session

    return authenticate


def _key_of(request: web.Request, keys: KeyStore, tokens: TokenStore) -> ApiKey:
    """A token opens a session and nothing else.  Raises `Unauthorized`."""
    if request.path == STREAM_PATH and hdrs.AUTHORIZATION not in request.headers:
        token = token_of(request)
        if token is not None:
            return tokens.redeem(token)
    return keys.authenticate(request.headers.get(hdrs.AUTHORIZATION))


def token_of(request: web.BaseRequest) -> str | None:
    """From `?token=`, or from the subprotocols that a browser offers."""
    if "token" in request.query:
        return request.query["token"]
    for header in request.headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, []):
        for name in header.split(","):
            if name.strip().startswith(TOKEN_PROTOCOL):
                return name.strip().removeprefix(TOKEN_PROTOCOL)
    return None
