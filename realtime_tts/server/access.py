"""Access rules of the server, its groups of paths, and the caller of a request."""

import secrets
from dataclasses import dataclass

from aiohttp import hdrs, web

from realtime_tts.server.api_keys import ApiKey, KeyStore
from realtime_tts.server.rate_limit import KeyQuota

API_PREFIX = "/v1/"
METRICS_PATH = "/metrics"
HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
"""Open to all, under any Host: the probes of an orchestrator have no key and use the server's address."""
ANY_ORIGIN = "*"
"""In the allowed origins: pages of all origins."""
NULL_ORIGIN = "null"
"""The origin of a page from a file, and of one in a sandbox."""
REQUEST_ID_HEADER = "X-Request-Id"
"""OpenAI's clients show it as `_request_id`.  For speech it is the session id of the log lines."""
SAFE_METHODS = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})


@dataclass(frozen=True, slots=True)
class AccessRules:
    keys: KeyStore | None = None
    """None: no authentication."""
    allowed_origins: frozenset[str] = frozenset()
    """Exact, such as `https://app.example.com`, or `*` for all, `null` for pages from files.  Pages of this server
    itself are always allowed."""
    public_hosts: frozenset[str] = frozenset()
    """Names of this server beside localhost, in lower case."""
    check_host: bool = True
    """False only if other machines can reach the server and its names are not configured."""

    def __post_init__(self) -> None:
        named = self.allowed_origins - {ANY_ORIGIN, NULL_ORIGIN}
        if any("*" in origin or origin.endswith("/") or "://" not in origin for origin in named):
            raise ValueError("an origin is scheme://host[:port], without a path; or * for all, or null")
        if any(host != host.lower() or "/" in host for host in self.public_hosts):
            raise ValueError("a host is a bare name in lower case, without a scheme")


@dataclass(frozen=True, slots=True)
class Caller:
    """The account of a request or a session."""

    name: str
    quota: KeyQuota
    key: ApiKey | None
    """None where the server requires no keys."""


CALLER = web.RequestKey("caller", Caller)
"""Set by the auth middleware on every request below /v1/."""
_REQUEST_ID = web.RequestKey("request_id", str)
ACCEPTED = web.RequestKey("accepted", bool)
"""Set by the last middleware: an error without it is a refusal before the handler has run."""


def request_id(request: web.BaseRequest) -> str:
    """The same at every call for a request."""
    if _REQUEST_ID not in request:
        request[_REQUEST_ID] = secrets.token_hex(8)
    return request[_REQUEST_ID]
