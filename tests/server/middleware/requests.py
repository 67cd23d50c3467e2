"""Requests for one middleware, without a server."""

from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from aiohttp.typedefs import Middleware


def ask(method: str, path: str, **headers: str) -> web.Request:
    request = make_mocked_request(method, path, headers={"Host": "localhost:8000", **headers})
    request.writer.output_size = 0
    return request


async def passes(middleware: Middleware, request: web.Request) -> bool:
    """Whether the handler behind it is called.  Raises what the middleware raises."""
    called = False

    async def handler(_request: web.Request) -> web.StreamResponse:
        nonlocal called
        called = True
        return web.Response()

    await middleware(request, handler)
    return called
