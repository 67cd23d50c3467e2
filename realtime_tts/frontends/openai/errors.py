"""Error responses in the shape of OpenAI's API, for every path of the server."""

import math
import re

import msgspec
from aiohttp import hdrs, web

from realtime_tts.errors import (
    InvalidMessage,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    RealtimeTTSError,
    RequestTooBig,
)
from realtime_tts.text.unicode import printable

_FIELD_PATH = re.compile(r" - at `\$\.(\w+)")
_MISSING_FIELD = re.compile(r"required field `(\w+)`")


def error_response(error: RealtimeTTSError) -> web.Response:
    """The one HTTP form of an error."""
    headers = {}
    if error.retry_after_s is not None:
        headers[hdrs.RETRY_AFTER] = str(max(1, math.ceil(error.retry_after_s)))  # rounded down it would be too early
    if error.http_status == 401:
        headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    if error.http_status == 426:
        headers |= {hdrs.UPGRADE: "websocket", hdrs.CONNECTION: "Upgrade", hdrs.SEC_WEBSOCKET_VERSION: "13"}
    return web.json_response({"error": error_fields(error)}, status=error.http_status, headers=headers)


def aiohttp_error_response(error: web.HTTPException) -> web.Response:
    """The same for an error that aiohttp raised: no such URL, a wrong method, a body too big, not a WebSocket."""
    response = error_response(_typed(error))
    if hdrs.ALLOW in error.headers:
        response.headers[hdrs.ALLOW] = error.headers[hdrs.ALLOW]
    return response


def _typed(error: web.HTTPException) -> RealtimeTTSError:
    text = printable((error.text or error.reason).strip())
    match error:
        case web.HTTPNotFound() | web.HTTPForbidden():  # the latter for a folder of static files
            return NotFound("no resource has this URL")
        case web.HTTPMethodNotAllowed():
            return MethodNotAllowed(f"this URL accepts {', '.join(sorted(error.allowed_methods))} only")
        case web.HTTPRequestEntityTooLarge():
            return RequestTooBig(text)
    return InvalidRequest(text)


def error_fields(error: RealtimeTTSError) -> dict[str, str | None]:
    status = error.http_status
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    return {"message": printable(error.message), "type": kind, "param": error.param, "code": error.code}


def from_msgspec(error: msgspec.ValidationError) -> InvalidMessage:
    """The typed error for a field that is missing or of a wrong type.  msgspec names the field only in its text."""
    text = str(error)
    field = _FIELD_PATH.search(text) or _MISSING_FIELD.search(text)
    return InvalidMessage(_FIELD_PATH.split(text)[0], param=None if field is None else field[1])
