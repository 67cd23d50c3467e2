"""Host check: a server is reachable only under its own names.

It stops DNS rebinding: a page whose name resolves to this machine sends that name as Host, and as Origin.
"""

import re
from collections.abc import Awaitable
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from realtime_tts.errors import HostNotAllowed, InvalidRequest
from realtime_tts.server.access import HEALTH_PATHS, AccessRules

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

_HOST = re.compile(r"[^\s@/?#\\]*")


def host_middleware(rules: AccessRules) -> Middleware:
    @web.middleware
    def check_host(request: web.Request, handler: Handler) -> Awaitable[web.StreamResponse]:
        if request.path not in HEALTH_PATHS:
            hosts = request.headers.getall(hdrs.HOST, [])
            if len(hosts) > 1:
                raise InvalidRequest("more than one Host header")
            if rules.check_host and not is_host_allowed(hosts[0] if hosts else "", rules.public_hosts):
                raise HostNotAllowed("this server does not have that name; the setting server.hosts lists its names")
        return handler(request)  # not awaited: its frame would be kept for a whole session

    return check_host


def is_host_allowed(host_header: str, public_hosts: frozenset[str]) -> bool:
    name = host_of(host_header)
    return name in LOCAL_NAMES or name in public_hosts


def host_of(host_header: str) -> str:
    """The name in a Host header, without its port, in lower case; "" if the header has none."""
    if not _HOST.fullmatch(host_header):
        return ""
    try:
        return (urlsplit(f"//{host_header}").hostname or "").rstrip(".")
    except ValueError:  # such as one bracket
        return ""
