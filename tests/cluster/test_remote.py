"""An engine behind a socket: equal audio, losses, hostile peers.  Covers `host`, `remote` and `outbox`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import aiohttp
import msgspec
import numpy as np
import pytest
from aiohttp import web

from realtime_tts.cluster import wire
from realtime_tts.cluster.remote import RemoteEngine
from realtime_tts.engine.api import (
    AudioReady,
    Cancel,
    EngineEvent,
    EngineHandle,
    FinishReason,
    RequestFinished,
    Submit,
)
from realtime_tts.engine.models import tone
from realtime_tts.errors import EngineUnavailable
from tests.cluster.hosted import TOKEN, hosted
from tests.fakes import request, until

SLOW = tone.ToneCosts(a0_s=0.02)


@asynccontextmanager
async def connected(url: str, *, silent_s: float = 2.0) -> AsyncIterator[RemoteEngine]:
    remote = RemoteEngine(url, TOKEN, silent_s=silent_s)
    try:
        async with asyncio.timeout(10):
            await remote.start()
        yield remote
    finally:
        await remote.stop()


async def speak(engine: EngineHandle, number: int = 0, text: str = "Hello there, world.") -> list[EngineEvent]:
    events: list[EngineEvent] = []
    ended = asyncio.Event()

    def on_event(event: EngineEvent) -> None:
        events.append(event)
        if isinstance(event, RequestFinished):
            ended.set()

    engine.send(Submit(request(number, text)), on_event)
    async with asyncio.timeout(20):
        await ended.wait()
    return events


def end_of(events: list[EngineEvent]) -> RequestFinished:
    end = events[-1]
    assert isinstance(end, RequestFinished)
    return end


class Proxy:
    """A TCP proxy whose connections can be dropped."""

    def __init__(self) -> None:
        self._target = ("", 0)
        self._writers: list[asyncio.StreamWriter] = []
        self._copying: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._server.close()
        self.drop_connections()
        await asyncio.gather(*self._copying, return_exceptions=True)

    def to(self, url: str) -> str:
        parts = urlsplit(url)
        self._target = (str(parts.hostname), int(parts.port or 0))
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def drop_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        self._writers += (writer, far_writer)
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            self._copying.add(asyncio.create_task(self._copy(source, sink)))

    @staticmethod
    async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65_536):
                sink.write(data)
                await sink.drain()
            sink.close()


async def test_a_remote_engine_speaks_as_a_local_one() -> None:
    async with hosted() as (url, _engine), connected(url) as remote:
        assert remote.info == tone.info()
        assert remote.status().ready
        events = await speak(remote)
        audio = np.concatenate([event.samples for event in events if isinstance(event, AudioReady)])
        assert np.array_equal(audio, tone.render(request()))
        assert end_of(events).reason is FinishReason.COMPLETE


async def test_a_lost_connection_ends_requests_on_both_sides_and_comes_back() -> None:
    async with Proxy() as proxy, hosted(tone.build(costs=SLOW)) as (url, engine), connected(proxy.to(url)) as remote:
        speaking = asyncio.create_task(speak(remote, text="A long sentence that takes a while to be spoken at all."))
        await until(lambda: engine.status().active_requests == 1)
        proxy.drop_connections()
        assert isinstance(end_of(await speaking).error, EngineUnavailable)
        await until(lambda: engine.status().active_requests == 0)
        await until(lambda: remote.status().ready)
        assert end_of(await speak(remote)).reason is FinishReason.COMPLETE


async def test_cancel_reaches_the_replica() -> None:
    async with hosted(tone.build(costs=SLOW)) as (url, engine), connected(url) as remote:
        speaking = asyncio.create_task(speak(remote, text="A long sentence that takes a while to be spoken at all."))
        await until(lambda: engine.status().active_requests == 1)
        remote.send(Cancel("r0"))
        assert end_of(await speaking).reason is FinishReason.CANCELLED
        await until(lambda: engine.status().active_requests == 0)


async def test_two_servers_may_use_the_same_ids() -> None:
    async with hosted() as (url, _engine), connected(url) as first, connected(url) as second:
        ends = await asyncio.gather(speak(first), speak(second))
        assert [end_of(each).reason for each in ends] == [FinishReason.COMPLETE] * 2


@asynccontextmanager
async def replica_that(serve: object) -> AsyncIterator[str]:
    app = web.Application()
    app.add_routes([web.get(wire.PATH, serve)])  # type: ignore[arg-type]
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_a_silent_replica_is_lost() -> None:
    async def serve(request: web.Request) -> web.WebSocketResponse:
        websocket = web.WebSocketResponse()
        await websocket.prepare(request)
        await websocket.send_bytes(wire.encode([wire.Hello(wire.VERSION, tone.info())]))
        await asyncio.sleep(60)
        return websocket

    async with replica_that(serve) as url, connected(url, silent_s=0.2) as remote:
        assert isinstance(end_of(await speak(remote)).error, EngineUnavailable)


async def test_replicas_of_another_version_or_with_malformed_data_are_not_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cases = {
        "its version is 99": wire.encode([wire.Hello(99, tone.info())]),
        "it sends no greeting": wire.encode([]),
        "is malformed": b"\xc1",
    }
    for reason, first in cases.items():

        async def serve(request: web.Request, first: bytes = first) -> web.WebSocketResponse:
            websocket = web.WebSocketResponse()
            await websocket.prepare(request)
            await websocket.send_bytes(first)
            await websocket.receive()
            return websocket

        async with replica_that(serve) as url:
            remote = RemoteEngine(url, TOKEN)
            starting = asyncio.create_task(remote.start())
            await until(lambda reason=reason: reason in caplog.text)  # type: ignore[misc]
            assert not remote.status().ready
            starting.cancel()
            await remote.stop()


async def test_hostile_peers_are_closed_and_the_replica_serves_on(caplog: pytest.LogCaptureFixture) -> None:
    async with hosted() as (url, _engine), aiohttp.ClientSession() as session:
        for authorization in ("", "Bearer wrong", "Bearer", "Basic secret"):
            async with session.get(url + wire.PATH, headers={"Authorization": authorization}) as response:
                assert response.status == 401, authorization
        headers = {"Authorization": f"Bearer {TOKEN}"}
        for data in (b"garbage", msgspec.msgpack.encode([["Other", {}]]), "text"):
            async with session.ws_connect(url + wire.PATH, headers=headers) as websocket:
                await (websocket.send_str(data) if isinstance(data, str) else websocket.send_bytes(data))
                async with asyncio.timeout(5):
                    while not websocket.closed:
                        await websocket.receive()
        assert "garbage" not in caplog.text
        async with connected(url) as remote:
            assert end_of(await speak(remote)).reason is FinishReason.COMPLETE
