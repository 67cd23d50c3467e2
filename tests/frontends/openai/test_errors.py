"""One shape for every error, with the status, field and time to retry of its type."""

import json
from typing import Any

import msgspec
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.errors import (
    InvalidConfig,
    ModelNotFound,
    Overloaded,
    QuotaExceeded,
    RealtimeTTSError,
    SynthesisFailed,
    Unauthorized,
    VoiceExists,
)
from realtime_tts.frontends.native.messages import SessionConfig
from realtime_tts.frontends.openai.errors import aiohttp_error_response, error_response, from_msgspec


def body_of(response: web.Response) -> dict[str, Any]:
    assert isinstance(response.body, bytes)
    body: dict[str, Any] = json.loads(response.body)
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    error: dict[str, Any] = body["error"]
    return error


def test_an_error_has_the_status_and_field_of_its_type() -> None:
    for error, status, kind, param in (
        (InvalidConfig("must be at most 4", param="speed"), 400, "invalid_request_error", "speed"),
        (Unauthorized("a key is required"), 401, "invalid_request_error", None),
        (ModelNotFound("the models are tone", param="model"), 404, "invalid_request_error", "model"),
        (VoiceExists("is taken", param="name"), 409, "invalid_request_error", "name"),
        (QuotaExceeded("used up"), 429, "rate_limit_error", None),
        (SynthesisFailed("speed: of light"), 500, "server_error", None),
        (Overloaded("full"), 503, "server_error", None),
    ):
        response = error_response(error)
        fields = body_of(response)
        assert (response.status, fields["type"], fields["param"]) == (status, kind, param), error
        assert (fields["code"], fields["message"]) == (error.code, error.message)
        assert (response.headers.get("WWW-Authenticate") == "Bearer") is (status == 401)


def test_the_time_to_retry_is_rounded_up_and_never_zero() -> None:
    for wait_s, header in ((None, None), (0.0, "1"), (0.01, "1"), (2.0, "2"), (2.4, "3"), (59.9, "60")):
        response = error_response(QuotaExceeded("used up", retry_after_s=wait_s))
        assert response.headers.get("Retry-After") == header, wait_s


@given(st.text(), st.none() | st.text(), st.none() | st.floats(0, 1e6))
def test_any_message_can_be_sent(message: str, param: str | None, retry_after_s: float | None) -> None:
    error = RealtimeTTSError(message, param=param, retry_after_s=retry_after_s)
    assert len(body_of(error_response(error))["message"]) <= 200


def test_errors_of_aiohttp_have_the_same_shape() -> None:
    for error, status, code in (
        (web.HTTPNotFound(), 404, "not_found"),
        (web.HTTPForbidden(), 404, "not_found"),
        (web.HTTPMethodNotAllowed("PUT", ["GET", "HEAD"]), 405, "method_not_allowed"),
        (web.HTTPRequestEntityTooLarge(10, 20), 413, "request_too_big"),
        (web.HTTPBadRequest(text="No WebSocket UPGRADE hdr: None"), 400, "invalid_request"),
    ):
        response = aiohttp_error_response(error)
        assert (response.status, body_of(response)["code"]) == (status, code), error
        assert response.headers.get("Allow") == ("GET,HEAD" if status == 405 else None)


def test_the_field_of_a_wrong_type_is_found_in_msgspec_s_text() -> None:
    class Voice(msgspec.Struct):
        id: str

    class Speech(msgspec.Struct):
        input: str
        voice: Voice | None = None
        seed: int | None = None

    for value, param in (
        ({}, "input"),
        ({"input": 5}, "input"),
        ({"input": "x", "voice": {}}, "voice"),
        ({"input": "x", "voice": {"id": 1}}, "voice"),
        ({"input": "x", "seed": "y"}, "seed"),
        ([], None),
    ):
        try:
            msgspec.convert(value, Speech)
        except msgspec.ValidationError as invalid:
            error = from_msgspec(invalid)
        assert error.param == param, value
        assert "$" not in error.message
        assert param is None or error.message.startswith(f"{param}: ")
    assert "seed" in SessionConfig.__struct_fields__
