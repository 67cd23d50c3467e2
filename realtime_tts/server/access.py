"""Which HTTP requests and WebSocket handshakes are let in, as whom, and what pages of other origins may see."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import hdrs, web

from realtime_tts.clock import Clock
from realtime_tts.errors import QuotaExceeded, RealtimeTTSError, Unauthorized
from realtime_tts.frontends.native.messages import STREAM_PATH
from realtime_tts.server.auth import (
    TOKEN_PROTOCOL,
    ApiKey,
    KeyStore,
    TokenStore,
    is_host_allowed,
    is_origin_allowed,
)
from realtime_tts.server.rate_limit import KeyQuota, QuotaBook, QuotaLimits

API_PREFIX = "/v1/"
METRICS_PATH = "/metrics"
HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
"""Open to all, by any name: an orchestrator's probes have no key, and call us by our address."""
SAFE_METHODS = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose account a request or a session goes."""

    name: str
    quota: KeyQuota
    key: ApiKey | None
    """None where nobody is asked for a key."""


CALLER = web.RequestKey("caller", Caller)
"""Set on every request below /v1/ before its handler runs."""


class Refused(RealtimeTTSError):
    """Not let in: an HTTP answer before anything was done."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.wire_code = code
        self.headers = dict(headers or {})


def problem(refused: Refused) -> web.Response:
    """A refusal as JSON."""
    body = {"error": {"code": refused.wire_code, "message": refused.message}}
    return web.json_response(body, status=refused.status, headers=refused.headers)


def over_quota(error: QuotaExceeded) -> Refused:
    """Refused with 429, for a quota that is used up."""
    wait_s = max(1, math.ceil(error.retry_after_s or 0))
    return Refused(429, error.code, error.message, {hdrs.RETRY_AFTER: str(wait_s)})


@dataclass(frozen=True, slots=True)
class AccessRules:
    keys: KeyStore | None = None
    """None: nobody is asked for a key."""
    allowed_origins: frozenset[str] = frozenset()
    """Exact, such as `https://app.example.com`; pages of this server itself are always allowed."""
    public_hosts: frozenset[str] = frozenset()
    """Names by which this server may be called, in lower case, beside localhost."""
    check_host: bool = True
    """Only to be waived where the server listens beyond this machine, and its names are not known."""

    def __post_init__(self) -> None:
        if any(origin == "*" or origin.endswith("/") or "://" not in origin for origin in self.allowed_origins):
            raise ValueError("an origin is scheme://host[:port], without a path; * is not allowed")
        if any(host != host.lower() or "/" in host for host in self.public_hosts):
            raise ValueError("a host is a bare name in lower case, without a scheme")


class Access:
    def __init__(self, rules: AccessRules, tokens: TokenStore, clock: Clock) -> None:
        self._rules = rules
        self._tokens = tokens
        self._quotas = QuotaBook(clock)
        self._anybody = Caller("anybody", KeyQuota(QuotaLimits(), clock), None)

    def admit(self, request: web.BaseRequest) -> Caller | None:
        """Who asks, or None where nobody needs to be known.  Raises `Refused`."""
        path = request.path
        if path in HEALTH_PATHS:
            return None
        self._check_host(request)
        self._check_origin(request)
        if not path.startswith(API_PREFIX) and path != METRICS_PATH:
            return None
        if self._is_preflight(request):
            return None  # browsers ask without a key
        keys = self._rules.keys
        if keys is None:
            return self._anybody
        try:
            key = self._authenticate(request, keys)
        except Unauthorized as error:
            raise Refused(401, error.code, error.message, {hdrs.WWW_AUTHENTICATE: "Bearer"}) from None
        return Caller(key.name, self._quotas.of(key.name, key.limits), key)

    def preflight(self, request: web.BaseRequest) -> web.Response | None:
        """The answer to a browser that asks whether a page may call the HTTP API; None where it does not ask."""
        if not self._is_preflight(request):
            return None
        headers = {
            hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, POST, DELETE",
            hdrs.ACCESS_CONTROL_ALLOW_HEADERS: "Authorization, Content-Type",
            hdrs.ACCESS_CONTROL_MAX_AGE: "600",
        }
        return web.Response(status=HTTPStatus.NO_CONTENT, headers=headers)

    def _is_preflight(self, request: web.BaseRequest) -> bool:
        asks = request.method == hdrs.METH_OPTIONS and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
        return asks and bool(self.cors_headers(request))

    def cors_headers(self, request: web.BaseRequest) -> dict[str, str]:
        """For an answer of the HTTP API to a page of a listed origin.  Never for WebSockets, which know no CORS."""
        origin = request.headers.get(hdrs.ORIGIN)
        if origin not in self._rules.allowed_origins or not request.path.startswith(API_PREFIX):
            return {}
        if request.path == STREAM_PATH:
            return {}
        return {hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: origin, hdrs.VARY: hdrs.ORIGIN}

    def _check_host(self, request: web.BaseRequest) -> None:
        hosts = request.headers.getall(hdrs.HOST, [])
        if len(hosts) > 1:
            raise Refused(400, "invalid_request", "more than one Host header")
        if self._rules.check_host and not is_host_allowed(hosts[0] if hosts else "", self._rules.public_hosts):
            raise Refused(403, "host_not_allowed", "this server does not go by that name; see --public-host")

    def _check_origin(self, request: web.BaseRequest) -> None:
        """CORS does not cover WebSockets: any page that a user opens could otherwise speak through this server.

        Nor does it stop a simple POST from being carried out.
        """
        if request.method in SAFE_METHODS and request.path != STREAM_PATH:
            return
        origin = request.headers.get(hdrs.ORIGIN)
        if not is_origin_allowed(origin, request.headers.get(hdrs.HOST, ""), self._rules.allowed_origins):
            raise Refused(403, "origin_not_allowed", f"pages from {(origin or '')[:200]} may not use this server")

    def _authenticate(self, request: web.BaseRequest, keys: KeyStore) -> ApiKey:
        """A token opens a session and nothing else.  Raises `Unauthorized`."""
        if request.path == STREAM_PATH and hdrs.AUTHORIZATION not in request.headers:
            token = token_of(request)
            if token is not None:
                return self._tokens.spend(token)
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
