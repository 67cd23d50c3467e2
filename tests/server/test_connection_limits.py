"""Floods and slow senders do not keep an honest client out."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from realtime_tts.server.app import ServerLimits
from realtime_tts.server.connection_limits import ConnectionGuard, ConnectionLimits, allow_open_files
from tests.base_client import base_client
from tests.fakes import spoken_pcm, until
from tests.serving import bare_exchange, status_of, tone_server

STREAM = {"response_format": "pcm", "stream_audio": True}
LARGE_BYTES = 16 * 1024 * 1024
"""More than the kernel holds for a client that does not read."""


@asynccontextmanager
async def open_socket(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def dropped(reader: asyncio.StreamReader) -> bool:
    """Waits until the server closes the connection; False if it sent anything before."""
    try:
        return await asyncio.wait_for(reader.read(), 10) == b""
    except ConnectionResetError:
        return True


def limits(**values: float) -> ServerLimits:
    return ServerLimits(connection=ConnectionLimits(**values))  # type: ignore[arg-type]


async def is_served(url: str) -> None:
    async with base_client(url, **STREAM) as client:
        assert (await client.speak("Hello.")).audio == [spoken_pcm("Hello.")]


# -- Slow senders -----------------------------------------------------------------------------------------------------


async def test_a_header_that_never_ends_is_dropped() -> None:
    async with tone_server(limits=limits(header_timeout_s=0.2)) as (url, server), AsyncExitStack() as stack:
        readers = []
        for begun in (b"", b"GET", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: b"):
            reader, writer = await stack.enter_async_context(open_socket(url))
            writer.write(begun)
            readers.append(reader)
        assert all([await dropped(reader) for reader in readers])
        await until(lambda: server.connections.open_connections == 0)


async def test_a_header_that_arrives_slowly_is_dropped_too() -> None:
    async with tone_server(limits=limits(header_timeout_s=0.3)) as (url, _server), open_socket(url) as (reader, writer):

        async def drip() -> None:
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            while True:
                writer.write(b"X-A: b\r\n")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert await dropped(reader)
        dripping.cancel()


async def test_a_second_request_has_a_time_limit_too() -> None:
    async with tone_server(limits=limits(keepalive_s=0.3)) as (url, _server), open_socket(url) as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"GET /healthz HTTP/1.1\r\n")
        rest = await asyncio.wait_for(reader.read(), 10)
        assert b"HTTP" not in rest


async def test_a_body_that_never_ends_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async def read(request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    def add_routes(app: web.Application) -> None:
        app.router.add_post("/v1/read", read)

    async with (
        tone_server(limits=limits(body_timeout_s=0.2), add_routes=add_routes) as (url, server),
        AsyncExitStack() as stack,
    ):
        readers = []
        for header in (b"Content-Length: 100", b"Transfer-Encoding: chunked"):
            reader, writer = await stack.enter_async_context(open_socket(url))
            writer.write(b"POST /v1/read HTTP/1.1\r\nHost: localhost\r\n" + header + b"\r\n\r\n5\r\nabc")
            readers.append(reader)
        assert all([await dropped(reader) for reader in readers])
        await until(lambda: server.connections.open_connections == 0)
    assert not caplog.records


async def test_an_open_session_has_no_such_limits() -> None:
    short = limits(header_timeout_s=0.1, body_timeout_s=0.1, keepalive_s=0.1)
    async with tone_server(limits=short) as (url, _server), base_client(url, **STREAM) as client:
        await asyncio.sleep(0.5)
        assert (await client.speak("Hello.")).audio == [spoken_pcm("Hello.")]


# -- Slow readers -----------------------------------------------------------------------------------------------------


def add_large_response(app: web.Application) -> None:
    async def large(_request: web.Request) -> web.Response:
        return web.Response(body=b"x" * LARGE_BYTES)

    app.router.add_get("/large", large)


async def test_a_finished_response_that_nobody_reads_has_a_time_limit() -> None:
    async with (
        tone_server(limits=limits(read_timeout_s=0.1), add_routes=add_large_response) as (url, server),
        open_socket(url) as (_reader, writer),
    ):
        writer.write(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: server.connections.open_connections == 1)
        await until(lambda: server.connections.open_connections == 0)


async def test_a_response_that_is_read_slowly_is_completed() -> None:
    async with (
        tone_server(limits=limits(read_timeout_s=0.2), add_routes=add_large_response) as (url, _server),
        open_socket(url) as (reader, writer),
    ):
        writer.write(b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = 0
        while data := await reader.read(1024 * 1024):
            received += len(data)
            await asyncio.sleep(len(data) / LARGE_BYTES)
    assert received > LARGE_BYTES


# -- Floods -----------------------------------------------------------------------------------------------------------


async def test_at_the_cap_the_oldest_idle_connection_is_dropped() -> None:
    async with tone_server(limits=limits(max_connections=3)) as (url, server), AsyncExitStack() as stack:
        sockets = []
        for number in range(5):
            sockets.append(await stack.enter_async_context(open_socket(url)))
            await until(lambda number=number: server.connections.open_connections == min(number + 1, 3))  # type: ignore[misc]
        assert await dropped(sockets[0][0])
        assert await dropped(sockets[1][0])
        await is_served(url)  # one more connection
        assert await dropped(sockets[2][0])
        sockets[4][1].write(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert status_of(await sockets[4][0].read()) == 200


async def test_a_connection_is_idle_again_after_its_response() -> None:
    async with tone_server(limits=limits(max_connections=1)) as (url, server), open_socket(url) as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"}")
        async with open_socket(url):
            assert await dropped(reader)
            assert server.connections.open_connections == 1


async def test_a_busy_connection_is_never_dropped_for_a_new_one() -> None:
    async with tone_server(limits=limits(max_connections=2)) as (url, server):
        async with base_client(url, **STREAM) as first, base_client(url, **STREAM) as second:
            async with open_socket(url) as (reader, _writer):
                assert await dropped(reader)
            for client in (first, second):
                assert (await client.speak("Hello.")).audio == [spoken_pcm("Hello.")]
            assert server.connections.open_connections == 2
        await until(lambda: server.connections.open_connections == 0)


def test_the_limit_of_open_files_is_raised_as_far_as_possible() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (500, before[1]))
        for required, allowed in ((400, 500), (800, 800), (before[1] + 1, before[1])):
            if allowed != resource.RLIM_INFINITY:
                assert allow_open_files(required) == allowed
                assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == allowed
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_low_limit_of_open_files_lowers_the_limit_of_connections() -> None:
    for open_files, connections in ((10_000, 1000), (1256, 1000), (1000, 744), (300, 150), (20, 10)):
        guard = ConnectionGuard(ConnectionLimits(max_connections=1000))
        guard.allow(open_files)
        assert guard.max_connections == connections, open_files


# -- Not HTTP -----------------------------------------------------------------------------------------------


async def test_garbage_gets_a_short_response_and_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with tone_server() as (url, server):
        for garbage in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"\x00" * 100 + b"\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"GET / HTTP/1.1\r\nAuthorization: Bearer secret\x00\r\n\r\n",
            b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nX: " + b"a" * 9000 + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 200 + b"\r\n",
        ):
            response = await bare_exchange(url, garbage)
            assert not response or status_of(response) == 400, garbage[:40]
            assert not response or b'"code": "invalid_request"' in response
            assert b"secret" not in response
            assert len(response) < 1200
        await until(lambda: server.connections.open_connections == 0)
        await is_served(url)
    assert not caplog.records


async def test_an_unknown_expect_header_is_refused_in_the_common_shape(caplog: pytest.LogCaptureFixture) -> None:
    async with tone_server() as (url, _server):
        for expect in (b"tea", b"\xff"):
            head = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: "
            response = await bare_exchange(url, head + expect + b"\r\n\r\n")
            assert status_of(response) == 417
            assert b'"code": "invalid_request"' in response
        response = await bare_exchange(url, head + b"100-continue\r\n\r\n")
        assert response.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
    assert not caplog.records


async def test_a_bug_in_a_handler_is_logged_and_its_details_are_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_request: web.Request) -> web.Response:
        raise ZeroDivisionError("secret")

    async def begin_and_fail(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"begun")
        raise ZeroDivisionError("secret")

    def add_routes(app: web.Application) -> None:
        app.router.add_get("/fail", fail)
        app.router.add_get("/begin", begin_and_fail)

    async with tone_server(add_routes=add_routes) as (url, _server):
        response = await bare_exchange(url, b"GET /fail HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status_of(response) == 500
        assert b'"code": "internal_error"' in response
        assert b"secret" not in response
        response = await bare_exchange(url, b"GET /begin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert response.endswith(b"5\r\nbegun\r\n"), "broken off, without the last chunk"
    assert [record.getMessage() for record in caplog.records] == [
        "a request to /fail has failed",
        "a request to /begin has failed",
    ]


async def test_a_client_that_leaves_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def lose(_request: web.Request) -> web.Response:
        raise ConnectionResetError("Cannot write to closing transport")

    def add_routes(app: web.Application) -> None:
        app.router.add_get("/lose", lose)

    async with tone_server(add_routes=add_routes) as (url, server):
        assert await bare_exchange(url, b"GET /lose HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
        await until(lambda: server.connections.open_connections == 0)
    assert not caplog.records
