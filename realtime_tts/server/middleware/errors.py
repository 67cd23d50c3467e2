"""Error responses: what a handler, a middleware or aiohttp raises becomes a response of one shape."""

from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from realtime_tts.errors import InvalidRequest, RealtimeTTSError
from realtime_tts.frontends.openai.errors import aiohttp_error_response, error_response
from realtime_tts.server.access import ACCEPTED


def errors_middleware(on_refused: Callable[[str], None]) -> Middleware:
    """`on_refused` gets the code of each refusal by another middleware.

    An unexpected exception, or any after the response has begun, is left to the connection's `handle_error`, which
    logs it.
    """

    @web.middleware
    async def respond_to_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except RealtimeTTSError as error:
            if request.writer.output_size > 0:
                raise
            if ACCEPTED not in request:
                on_refused(error.code)
            return error_response(error)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return aiohttp_error_response(error)
        except web.RequestPayloadError:
            if request.writer.output_size > 0:
                raise
            return error_response(InvalidRequest("the body is not encoded as its header says"))

    return respond_to_errors
