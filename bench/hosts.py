"""Where may load be sent?  To this machine, unless somebody says otherwise."""

from urllib.parse import urlsplit

from realtime_tts.errors import RealtimeTTSError
from realtime_tts.server.addresses import is_loopback


class NotThisMachine(RealtimeTTSError):
    """A load test against a server of others is an attack."""

    code = "not_this_machine"


def require_loopback(url: str, *, allow_remote: bool) -> None:
    """Raises `NotThisMachine` for a URL that is not on this machine, unless `allow_remote`."""
    host = urlsplit(url if "://" in url else f"http://{url}").hostname or ""
    if not allow_remote and not is_loopback(host):
        raise NotThisMachine(
            f"{host or url!r} is not this machine; if its owner agrees to the load, say --allow-remote"
        )
