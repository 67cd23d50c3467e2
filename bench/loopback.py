"""Restriction of load tests to servers on this machine."""

from urllib.parse import urlsplit

from realtime_tts.errors import RealtimeTTSError
from realtime_tts.server.addresses import is_loopback


class RemoteServer(RealtimeTTSError):
    """A load test against a server without its owner's consent is an attack."""

    code = "remote_server"


def require_loopback(url: str, *, allow_remote: bool) -> None:
    """Raises `RemoteServer` for a URL that is not on this machine, unless `allow_remote`."""
    host = urlsplit(url if "://" in url else f"http://{url}").hostname or ""
    if not allow_remote and not is_loopback(host):
        raise RemoteServer(
            f"{host or url!r} is not this machine; use --allow-remote if the owner of the server agrees to the load"
        )
