"""Every deliberate error becomes a response; refusals by middlewares are counted, errors of handlers are not."""

import json

import pytest
from aiohttp import web

from realtime_tts.errors import InvalidConfig, RealtimeTTSError
from realtime_tts.server.access import ACCEPTED
from realtime_tts.server.middleware.errors import errors_middleware
from tests.server.middleware.requests import ask


async def raised(error: Exception, *, accepted: bool = True) -> tuple[web.StreamResponse, list[str]]:
    """The response to `error` behind the middleware, and what was counted."""
    counted: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        if accepted:
            request[ACCEPTED] = True
        raise error

    return await errors_middleware(counted.append)(ask("GET", "/v1/models"), handler), counted


async def test_a_typed_error_becomes_a_response_and_counts_before_the_handler_alone() -> None:
    for accepted, expected in ((True, []), (False, ["invalid_config"])):
        response, counted = await raised(InvalidConfig("must be 1", param="speed"), accepted=accepted)
        assert isinstance(response, web.Response)
        assert (response.status, counted) == (400, expected)
        assert json.loads(response.body or b"")["error"]["param"] == "speed"  # type: ignore[arg-type]


async def test_an_error_of_aiohttp_becomes_a_response_and_a_redirect_stays_one() -> None:
    response, counted = await raised(web.HTTPNotFound())
    assert isinstance(response, web.Response)
    assert json.loads(response.body or b"")["error"]["code"] == "not_found"  # type: ignore[arg-type]
    assert not counted
    with pytest.raises(web.HTTPFound):
        await raised(web.HTTPFound("/elsewhere"))


async def test_a_body_that_cannot_be_decoded_is_the_client_s_error() -> None:
    response, _counted = await raised(web.RequestPayloadError("incorrect header check"))
    assert isinstance(response, web.Response)
    assert response.status == 400
    assert b"incorrect header check" not in (response.body or b"")  # type: ignore[operator]


async def test_a_bug_and_an_error_after_the_response_has_begun_are_left_to_the_connection() -> None:
    with pytest.raises(ZeroDivisionError):
        await raised(ZeroDivisionError())

    async def begin_and_fail(request: web.Request) -> web.StreamResponse:
        request.writer.output_size = 100
        raise InvalidConfig("too late")

    with pytest.raises(RealtimeTTSError, match="too late"):
        await errors_middleware(lambda _code: None)(ask("GET", "/"), begin_and_fail)
