"""While the server ends, the API refuses and the rest answers; requests in progress are counted."""

import asyncio

import pytest
from aiohttp import web

from realtime_tts.errors import NotReady
from realtime_tts.server.middleware.drain import drain_middleware
from tests.server.middleware.requests import ask, passes
from tests.server.test_sessions import new_sessions


async def test_requests_in_progress_are_waited_for_and_new_ones_are_refused() -> None:
    sessions = new_sessions()
    middleware = drain_middleware(sessions)
    finish = asyncio.Event()

    async def work(_request: web.Request) -> web.StreamResponse:
        await finish.wait()
        return web.Response()

    working = asyncio.ensure_future(middleware(ask("POST", "/v1/work"), work))
    await asyncio.sleep(0)
    draining = asyncio.create_task(sessions.drain(60.0))
    await asyncio.sleep(0)
    with pytest.raises(NotReady, match="draining") as refused:
        await passes(middleware, ask("GET", "/v1/models"))
    assert refused.value.retry_after_s == 5.0
    assert await passes(middleware, ask("GET", "/healthz"))
    assert not draining.done()
    finish.set()
    await working
    await draining
    assert sessions.ending == "stopping"


async def test_a_handler_that_fails_is_no_longer_in_progress() -> None:
    sessions = new_sessions()

    async def fail(_request: web.Request) -> web.StreamResponse:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await drain_middleware(sessions)(ask("GET", "/"), fail)
    await asyncio.wait_for(sessions.drain(60.0), 5.0)
