"""Access rules of the server, its groups of paths, and the caller of a request."""

from dataclasses import dataclass

from aiohttp import hdrs, web

from realtime_tts.server.api_keys import ApiKey, KeyStore
from realtime_tts.server.rate_limit import KeyQuota

API_PREFIX = "/v1/"
METRICS_PATH = "/metrics"
HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
"""Open to all, under any Host: the probes of an orchestrator have no key and use the server's address."""
SAFE_METHODS = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})


@dataclass(frozen=True, slots=True)
class AccessRules:
    keys: KeyStore | None = None
    """None: no authentication."""
    allowed_origins: frozenset[str] = frozenset()
    """Exact, such as `https://app.example.com`; pages of this server itself are always allowed."""
    public_hosts: frozenset[str] = frozenset()
    """Names of this server beside localhost, in lower case."""
    check_host: bool = True
    """False only if other machines can reach the server and its names are not configured."""

    def __post_init__(self) -> None:
        if any(origin == "*" or origin.endswith("/") or "://" not in origin for origin in self.allowed_origins):
            raise ValueError("an origin is scheme://host[:port], without a path; * is not allowed")
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
ACCEPTED = web.RequestKey("accepted", bool)
"""Set by the last middleware: an error without it is a refusal before the handler has run."""
