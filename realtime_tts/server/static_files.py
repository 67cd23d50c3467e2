"""The demo page's static files, and the security headers of every response."""

from importlib import resources
from pathlib import Path

from aiohttp import web

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


async def index(_request: web.Request) -> web.FileResponse:
    return web.FileResponse(demo_folder() / "index.html")


def add_routes(app: web.Application) -> None:
    """Serves the page at / and its files under /static; aiohttp answers conditional requests.

    Not compressed: `FileResponse.enable_compression` writes a body after a 304 (aiohttp 3.14.5), which corrupts a
    kept-alive connection.
    """
    app.add_routes([web.get("/", index), web.static("/static", demo_folder())])
