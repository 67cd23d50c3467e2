"""Every response has the security headers; a response to a page of a listed origin may be read by it."""

from aiohttp import web

from realtime_tts.server.access import AccessRules, request_id
from realtime_tts.server.middleware.headers import add_headers
from realtime_tts.server.static_files import SECURITY_HEADERS
from tests.server.middleware.requests import ask


async def test_security_headers_are_on_every_response_and_cors_where_it_applies() -> None:
    add = add_headers(AccessRules(allowed_origins=frozenset({"https://app.example"})))
    for origin, readable in (("https://app.example", True), ("https://evil.example", False)):
        response = web.Response()
        await add(ask("GET", "/v1/models", Origin=origin), response)
        assert SECURITY_HEADERS.items() <= dict(response.headers).items()
        assert ("Access-Control-Allow-Origin" in response.headers) is readable


async def test_a_response_of_the_api_has_a_request_id() -> None:
    add = add_headers(AccessRules())
    for path, expected in (("/v1/models", True), ("/v1/nothing", True), ("/", False)):
        request, response = ask("GET", path), web.Response()
        await add(request, response)
        assert (response.headers.get("X-Request-Id") == request_id(request)) is expected, path
