"""A connection whose request is served is not dropped for a new one."""

import asyncio

import aiohttp
from aiohttp import web

from realtime_tts.server.app import ServerLimits
from realtime_tts.server.connection_limits import ConnectionLimits
from tests.serving import tone_server


async def test_a_busy_connection_survives_new_ones() -> None:
    begun, finish = asyncio.Event(), asyncio.Event()

    async def work(_request: web.Request) -> web.Response:
        begun.set()
        await finish.wait()
        return web.Response(text="done")

    def add_routes(app: web.Application) -> None:
        app.router.add_get("/work", work)

    limits = ServerLimits(connection=ConnectionLimits(max_connections=2))
    async with (
        tone_server(limits=limits, add_routes=add_routes) as (url, _server),
        aiohttp.ClientSession() as client,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as others,
    ):
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(client.get(f"{url}/work"))
            await begun.wait()
            for _ in range(5):
                async with others.get(f"{url}/healthz") as response:
                    assert response.status == 200
            finish.set()
        assert await working.result().text() == "done"
