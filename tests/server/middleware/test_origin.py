"""Pages of other origins can neither connect nor change anything, and read only what CORS allows them."""

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.errors import OriginNotAllowed
from realtime_tts.frontends.native.messages import STREAM_PATH
from realtime_tts.server.access import METRICS_PATH, AccessRules
from realtime_tts.server.middleware.origin import cors_headers, is_origin_allowed, is_preflight, origin_middleware
from tests.server.middleware.requests import ask, passes

APP = "https://app.example"
EVIL = "https://evil.example"
RULES = AccessRules(allowed_origins=frozenset({APP}))
CHECK = origin_middleware(RULES)
PREFLIGHT = {"Access-Control-Request-Method": "POST"}


async def test_a_page_of_another_origin_can_neither_connect_nor_change_anything() -> None:
    for method, path in (
        ("GET", STREAM_PATH),
        ("POST", "/v1/audio/speech"),
        ("DELETE", "/v1/audio/voices/me"),
        ("PUT", "/"),
    ):
        with pytest.raises(OriginNotAllowed):
            await passes(CHECK, ask(method, path, Origin=EVIL))
        for origin in (APP, "http://localhost:8000"):
            assert await passes(CHECK, ask(method, path, Origin=origin)), (path, origin)
    for method, path in (("GET", "/v1/audio/voices"), ("HEAD", "/"), ("POST", "/healthz")):
        assert await passes(CHECK, ask(method, path, Origin=EVIL)), path


def test_only_pages_of_this_server_and_of_listed_origins_are_allowed() -> None:
    for origin, allowed in (
        (None, True),
        ("http://here:8000", True),
        ("https://here:8000", True),
        ("https://app.example", True),
        ("https://app.example:444", False),
        ("http://app.example", False),
        ("https://app.example.evil.example", False),
        ("https://xapp.example", False),
        ("http://here", False),
        ("null", False),
        ("", False),
        ("file://", False),
        ("file://here:8000", False),
        ("http://[", False),
    ):
        assert is_origin_allowed(origin, "here:8000", frozenset({APP})) is allowed, origin
    assert not is_origin_allowed("http://", "", frozenset()), "without a Host no origin is the same"


def test_all_origins_or_that_of_files_may_be_allowed() -> None:
    for origin in (EVIL, "null", "file://", "http://["):
        assert is_origin_allowed(origin, "here:8000", frozenset({"*"})), origin
    assert is_origin_allowed("null", "here:8000", frozenset({"null"}))
    assert not is_origin_allowed(EVIL, "here:8000", frozenset({"null"}))
    every = AccessRules(allowed_origins=frozenset({"*"}))
    for origin in (EVIL, "null"):
        headers = cors_headers(ask("GET", "/v1/models", Origin=origin), every)
        assert headers["Access-Control-Allow-Origin"] == origin, "that of a page, so that a cache keeps them apart"
    assert not cors_headers(ask("GET", "/v1/models"), every)


@given(st.text())
def test_any_header_is_an_origin_or_refused(header: str) -> None:
    is_origin_allowed(header, header, frozenset())


def test_only_listed_origins_may_read_and_only_the_http_api() -> None:
    assert cors_headers(ask("GET", "/v1/models", Origin=APP), RULES)["Access-Control-Allow-Origin"] == APP
    exposed = cors_headers(ask("GET", "/v1/models", Origin=APP), RULES)["Access-Control-Expose-Headers"]
    assert exposed == "X-Request-Id, Retry-After, X-Realtime-TTS-Ignored"
    for path, origin in (("/v1/models", EVIL), (STREAM_PATH, APP), ("/", APP), (METRICS_PATH, APP)):
        assert not cors_headers(ask("GET", path, Origin=origin), RULES), path
    assert not cors_headers(ask("GET", "/v1/models"), RULES)


async def test_a_preflight_is_answered_before_authentication() -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        raise AssertionError("a preflight needs no handler")

    response = await CHECK(ask("OPTIONS", "/v1/audio/speech", Origin=APP, **PREFLIGHT), handler)
    assert response.status == 204
    # OpenAI's browser SDK sends x-stainless-* headers; the wildcard does not include Authorization (Fetch, 4.8).
    assert response.headers["Access-Control-Allow-Headers"] == "Authorization, Content-Type, *"
    for request in (
        ask("OPTIONS", "/v1/audio/speech", Origin=EVIL, **PREFLIGHT),
        ask("OPTIONS", STREAM_PATH, Origin=APP, **PREFLIGHT),
        ask("OPTIONS", "/v1/audio/speech", Origin=APP),
        ask("POST", "/v1/audio/speech", Origin=APP, **PREFLIGHT),
    ):
        assert not is_preflight(request, RULES), request
