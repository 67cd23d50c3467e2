"""The demo page's files, small and fresh for a browser, and the policy that says what such a page may do."""

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

from aiohttp import hdrs, web

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",  # AudioWorklets too
        "style-src 'self'",
        # WebSockets of the same host and port too (CSP 3, 6.7.2.8): Firefox, Chrome since 71, Safari since 15.5.
        "connect-src 'self'",
        "img-src 'self' data:",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
DENIED = (
    *("accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "hid", "idle-detection"),
    *("local-fonts", "magnetometer", "midi", "payment", "serial", "usb", "xr-spatial-tracking"),
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Permissions-Policy": ", ".join(("microphone=(self)", *(f"{feature}=()" for feature in DENIED))),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # asked again each time: a page and its scripts are of one version
    "Server": "realtime-tts",
}

FILE_PATH = r"/static/{path:[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)*}"
"""No part begins with a dot, and nothing is escaped: no path leads out of the folder."""
KINDS = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
"""What is served, and as what: not what the machine's own table says, which Windows' registry may have wrong."""
COMPRESSED_ALREADY = frozenset({".png"})
_REFUSED = re.compile(r"\s*q\s*=\s*0(\.0*)?\s*")


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file, as it may be sent."""

    kind: str
    plain: bytes
    gzipped: bytes | None
    """None where that saves nothing."""
    digest: str


async def demo_page(request: web.Request) -> web.Response:
    return send_file(request, demo_folder() / "index.html")


async def demo_file(request: web.Request) -> web.Response:
    return send_file(request, demo_folder() / request.match_info["path"])


def demo_folder() -> Path:
    """web_demo/, which an installed package carries inside itself and a checkout has beside it."""
    inside = Path(str(resources.files("realtime_tts"))) / "web_demo"
    return inside if inside.is_dir() else inside.parent.parent / "web_demo"


def send_file(request: web.BaseRequest, path: Path) -> web.Response:
    """Or 304 where the browser has it, or `HTTPNotFound`."""
    if path.suffix not in KINDS or not path.is_file():
        raise web.HTTPNotFound
    file = _read(path, path.stat().st_mtime_ns)
    zipped = file.gzipped is not None and takes_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, ""))
    tag = f"{file.digest}-gzip" if zipped else file.digest
    headers = {hdrs.ETAG: f'"{tag}"', hdrs.VARY: hdrs.ACCEPT_ENCODING}
    if any(known.value in (tag, "*") for known in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    if zipped:
        headers[hdrs.CONTENT_ENCODING] = "gzip"
    body = file.gzipped if zipped else file.plain
    return web.Response(body=body, headers=headers | {hdrs.CONTENT_TYPE: file.kind})


@lru_cache(maxsize=128)
def _read(path: Path, _changed_ns: int) -> PageFile:
    """Again only where the file has changed."""
    plain = path.read_bytes()
    kind = KINDS[path.suffix]
    if path.suffix not in COMPRESSED_ALREADY:
        kind += "; charset=utf-8"
        gzipped = gzip.compress(plain, mtime=0)
    else:
        gzipped = plain
    return PageFile(kind, plain, gzipped if len(gzipped) < len(plain) else None, hashlib.sha256(plain).hexdigest()[:32])


def takes_gzip(accept_encoding: str) -> bool:
    """RFC 9110, 12.5.3.  `*` alone is answered in plain."""
    for each in accept_encoding.lower().split(","):
        coding, _, weight = each.partition(";")
        if coding.strip() == "gzip":
            return not _REFUSED.fullmatch(weight)
    return False
