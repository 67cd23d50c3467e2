"""Request bodies: JSON of limited size, and a time limit for a body to arrive."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from realtime_tts.errors import MessageTooBig, SlowClient, UnsupportedMediaType

READ_BYTES = 48 * 1024


@asynccontextmanager
async def deadline(seconds: float) -> AsyncIterator[None]:
    """Raises `SlowClient` if the block takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise SlowClient(f"the request was not complete within {seconds:g} s") from None


async def read_json_body(request: web.Request, max_bytes: int) -> bytes:
    """The body, if it is announced as JSON.  Raises `UnsupportedMediaType` or `MessageTooBig`."""
    if request.content_type != "application/json" and not request.content_type.endswith("+json"):
        raise UnsupportedMediaType("the body must be JSON, and its Content-Type application/json")
    body = bytearray()
    async for data in request.content.iter_chunked(READ_BYTES):
        body += data
        if len(body) > max_bytes:
            raise MessageTooBig(f"the body may have {max_bytes} bytes")
    return bytes(body)
