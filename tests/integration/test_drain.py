"""A draining server finishes what has begun, accepts nothing new, and notifies every client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
import websockets.asyncio.client
from aiohttp import web
from websockets.exceptions import InvalidStatus

from realtime_tts.engine.models import tone
from realtime_tts.server.app import Server, ServerOptions
from tests.base_client import base_client, ws_url
from tests.fakes import spoken_pcm, until
from tests.serving import tone_server

STREAM = {"response_format": "pcm", "stream_audio": True}
TEXT = "This one is being spoken. It is spoken to its end."
LONG_TEXT = "This sentence is spoken again and again. " * 2000
DEADLINE_S = 30.0


@asynccontextmanager
async def slow_server(options: ServerOptions | None = None) -> AsyncIterator[tuple[str, Server]]:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.005))
    async with tone_server(model, options=options) as (url, server):
        yield url, server


async def status(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status


async def test_speech_in_progress_is_finished_and_idle_sessions_end_at_once() -> None:
    async with slow_server() as (url, server):
        async with base_client(url, **STREAM) as idle, base_client(url, **STREAM) as speaking:
            await idle.next("session.updated")
            await speaking.send_utterance(TEXT)
            await until(lambda: server.engine_status().active_requests > 0)
            draining = asyncio.create_task(server.drain(DEADLINE_S))
            notice = await idle.next("session.expiring")
            assert notice["reason"] == "drain"
            assert 0 < notice["deadline_ms"] <= DEADLINE_S * 1000
            assert await idle.close_code() == 1012
            utterance = await speaking.utterance()
            assert utterance.audio == [spoken_pcm(text) for text in utterance.texts]
            assert " ".join(utterance.texts) == TEXT
            assert not utterance.errors
            assert await speaking.close_code() == 1012
            await asyncio.wait_for(draining, 10)
        assert server.active_sessions == 0


async def test_a_draining_server_is_alive_and_not_ready_and_accepts_no_session() -> None:
    async with slow_server() as (url, server), base_client(url, **STREAM) as speaking:
        await speaking.send_utterance(LONG_TEXT)
        await speaking.next("audio.start")
        draining = asyncio.create_task(server.drain(DEADLINE_S))
        await speaking.next("session.expiring")
        assert await status(f"{url}/healthz") == 200
        assert await status(f"{url}/readyz") == 503
        assert await status(f"{url}/v1/audio/voices") == 503
        with pytest.raises(InvalidStatus) as refused:
            await websockets.asyncio.client.connect(ws_url(url), proxy=None)
        assert refused.value.response.status_code == 503
        assert int(refused.value.response.headers["Retry-After"]) > 0
        draining.cancel()


async def test_at_the_deadline_the_remaining_sessions_end() -> None:
    async with slow_server() as (url, server), base_client(url, **STREAM) as speaking:
        await speaking.send_utterance(LONG_TEXT)
        await speaking.next("audio.start")
        draining = asyncio.create_task(server.drain(0.3))
        await speaking.next("session.expiring")
        assert await speaking.close_code() == 1012
        await asyncio.wait_for(draining, 10)
        assert server.active_sessions == 0


async def test_a_cancelled_drain_stops_at_once() -> None:
    stack = AsyncExitStack()
    url, server = await stack.enter_async_context(slow_server())
    async with base_client(url, **STREAM) as speaking:
        await speaking.send_utterance(LONG_TEXT)
        await speaking.next("audio.start")
        draining = asyncio.create_task(server.drain(DEADLINE_S))
        await speaking.next("session.expiring")
        draining.cancel()
        stopping = asyncio.create_task(stack.aclose())
        assert (await speaking.next("error"))["code"] == "server_stopping"
        assert await speaking.close_code() == 1012
        await asyncio.wait_for(stopping, 20)
    with pytest.raises(asyncio.CancelledError):
        await draining


async def test_a_server_without_clients_drains_at_once() -> None:
    async with tone_server() as (_url, server):
        await asyncio.wait_for(server.drain(DEADLINE_S), 5)


async def test_a_request_in_progress_is_waited_for() -> None:
    begun, finish = asyncio.Event(), asyncio.Event()

    async def work(_request: web.Request) -> web.Response:
        begun.set()
        await finish.wait()
        return web.Response(text="done")

    def add_routes(app: web.Application) -> None:
        app.router.add_post("/v1/work", work)

    async def ask(url: str) -> str:
        async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/work") as response:
            return await response.text()

    async with tone_server(add_routes=add_routes) as (url, server):
        asking = asyncio.create_task(ask(url))
        await begun.wait()
        draining = asyncio.create_task(server.drain(DEADLINE_S))
        await until(lambda: server.sessions.ending is not None)
        assert not draining.done()
        finish.set()
        assert await asking == "done"
        await asyncio.wait_for(draining, 5)


async def test_sessions_that_open_during_the_drain_are_notified_too() -> None:
    async def connect(url: str) -> websockets.asyncio.client.ClientConnection:
        return await websockets.asyncio.client.connect(ws_url(url), proxy=None)

    async with tone_server() as (url, server):
        connecting = [asyncio.create_task(connect(url)) for _ in range(20)]
        await until(lambda: server.active_sessions > 0)
        await asyncio.wait_for(server.drain(5.0), 15)
        for outcome in await asyncio.gather(*connecting, return_exceptions=True):
            if isinstance(outcome, InvalidStatus):
                assert outcome.response.status_code == 503
            else:
                assert isinstance(outcome, websockets.asyncio.client.ClientConnection)
                await outcome.wait_closed()
                assert outcome.close_code == 1012
        assert server.active_sessions == 0
