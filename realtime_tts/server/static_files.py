"""The demo page's static files, and the security headers of every response."""

import hashlib
import mimetypes
from importlib import resources
from pathlib import Path

from aiohttp import hdrs, web

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",  # covers AudioWorklet modules
        "style-src 'self'",
        # Covers WebSockets to the same host and port (CSP 3, 6.7.2.8): Firefox, Chrome 71, Safari 15.5.
        "connect-src 'self'",
        "img-src 'self' data:",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
DENIED_FEATURES = (
    *("accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "hid", "idle-detection"),
    *("local-fonts", "magnetometer", "midi", "payment", "serial", "usb", "xr-spatial-tracking"),
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Permissions-Policy": ", ".join(("microphone=(self)", *(f"{feature}=()" for feature in DENIED_FEATURES))),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # revalidate every file, so that the page and its scripts are of one version
    "Server": "realtime-tts",
}


def demo_folder() -> Path:
    """web_demo/: inside an installed package, beside the package in a checkout."""
    inside = Path(str(resources.files("realtime_tts"))) / "web_demo"
    return inside if inside.is_dir() else inside.parent.parent / "web_demo"


_CONTENT_TYPES = mimetypes.MimeTypes()
"""Python's own table: that of the system may differ."""


class StaticFiles:
    """Serves the files that are in a folder now, by name: no request becomes a path.

    Not aiohttp's own: it answers a name that is too long for the file system with 500, and in asyncio's loop it waits
    without a limit for a client that does not read.  Not compressed: the files are small.
    """

    def __init__(self, folder: Path) -> None:
        self._files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}

    async def index(self, request: web.Request) -> web.Response:
        return self._respond(request, "index.html")

    async def file(self, request: web.Request) -> web.Response:
        return self._respond(request, request.match_info["name"])

    def _respond(self, request: web.Request, name: str) -> web.Response:
        if name not in self._files:
            raise web.HTTPNotFound
        content = self._files[name].read_bytes()  # each time, so that an edit needs no restart
        etag = hashlib.sha256(content).hexdigest()[:32]
        headers = {hdrs.ETAG: f'"{etag}"'}
        if any(known.value in (etag, "*") for known in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        headers[hdrs.CONTENT_TYPE] = _CONTENT_TYPES.guess_type(name)[0] or "application/octet-stream"
        return web.Response(body=content, headers=headers)


def add_routes(app: web.Application) -> None:
    """Serves the page at / and its files under /static."""
    files = StaticFiles(demo_folder())
    app.add_routes([web.get("/", files.index), web.get("/static/{name:.+}", files.file)])
