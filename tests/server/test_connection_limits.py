"""The front door: floods, dawdlers and bad certificates do not keep an honest client out."""

import asyncio
import resource
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
import websockets.asyncio.client
from aiohttp import web

from realtime_tts.errors import UnusableCertificate
from realtime_tts.server.app import ServerLimits
from realtime_tts.server.connection_limits import DoorLimits, allow_open_files, tls_context
from tests.base_client import base_client, ws_url
from tests.fakes import spoken_pcm, until
from tests.serving import bare_exchange, status_of, tone_server

STREAM = {"response_format": "pcm", "stream_audio": True}
TLS = Path(__file__).parent / "tls"


@asynccontextmanager
async def open_socket(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def dropped(reader: asyncio.StreamReader) -> bool:
    """Waits for the server to hang up; False if it said anything before."""
    try:
        return await asyncio.wait_for(reader.read(), 10) == b""
    except ConnectionResetError:
        return True


def limits(**door: float) -> ServerLimits:
    return ServerLimits(door=DoorLimits(**door))  # type: ignore[arg-type]


async def is_served(url: str) -> None:
    async with base_client(url, **STREAM) as client:
        assert (await client.speak("Hello.")).audio == [spoken_pcm("Hello.")]


# -- Dawdlers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: b"])
async def test_who_never_finishes_a_header_is_dropped(begun: bytes) -> None:
    async with tone_server(limits=limits(header_timeout_s=0.2)) as (url, server), open_socket(url) as (reader, writer):
        writer.write(begun)
        assert await dropped(reader)
        await until(lambda: server.door.open_connections == 0)


async def test_who_sends_a_header_drop_by_drop_is_dropped_all_the_same() -> None:
    async with tone_server(limits=limits(header_timeout_s=0.3)) as (url, _server), open_socket(url) as (reader, writer):

        async def drip() -> None:
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            while True:
                writer.write(b"X-A: b\r\n")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert await dropped(reader)
        dripping.cancel()


async def test_a_second_request_has_its_time_too() -> None:
    async with tone_server(limits=limits(keepalive_s=0.3)) as (url, _server), open_socket(url) as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"GET /healthz HTTP/1.1\r\n")
        rest = await asyncio.wait_for(reader.read(), 10)
        assert b"HTTP" not in rest


@pytest.mark.parametrize("header", [b"Content-Length: 100", b"Transfer-Encoding: chunked"])
async def test_who_never_finishes_a_body_is_dropped(header: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def read(request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    def add_routes(app: web.Application) -> None:
        app.router.add_post("/v1/read", read)

    async with (
        tone_server(limits=limits(body_timeout_s=0.2), add_routes=add_routes) as (url, server),
        open_socket(url) as (reader, writer),
    ):
        writer.write(b"POST /v1/read HTTP/1.1\r\nHost: localhost\r\n" + header + b"\r\n\r\n5\r\nabc")
        assert await dropped(reader)
        await until(lambda: server.door.open_connections == 0)
    assert not caplog.records


async def test_an_open_session_is_no_dawdler() -> None:
    short = limits(header_timeout_s=0.1, body_timeout_s=0.1, keepalive_s=0.1)
    async with tone_server(limits=short) as (url, _server), base_client(url, **STREAM) as client:
        await asyncio.sleep(0.5)
        assert (await client.speak("Hello.")).audio == [spoken_pcm("Hello.")]


# -- Floods -----------------------------------------------------------------------------------------------------------


async def test_at_the_cap_the_oldest_silent_connection_makes_room() -> None:
    async with tone_server(limits=limits(max_connections=3)) as (url, server), AsyncExitStack() as stack:
        sockets = []
        for number in range(5):
            sockets.append(await stack.enter_async_context(open_socket(url)))
            await until(lambda number=number: server.door.open_connections == min(number + 1, 3))  # type: ignore[misc]
        assert await dropped(sockets[0][0])
        assert await dropped(sockets[1][0])
        await is_served(url)  # one more makes room
        assert await dropped(sockets[2][0])
        sockets[4][1].write(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert status_of(await sockets[4][0].read()) == 200


async def test_a_connection_that_has_been_answered_makes_room_too() -> None:
    async with tone_server(limits=limits(max_connections=1)) as (url, server), open_socket(url) as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"}")
        async with open_socket(url):
            assert await dropped(reader)
            assert server.door.open_connections == 1


async def test_what_is_at_work_is_never_dropped_for_a_newcomer() -> None:
    async with tone_server(limits=limits(max_connections=2)) as (url, server):
        async with base_client(url, **STREAM) as first, base_client(url, **STREAM) as second:
            async with open_socket(url) as (reader, _writer):
                assert await dropped(reader)
            for client in (first, second):
                assert (await client.speak("Hello.")).audio == [spoken_pcm("Hello.")]
            assert server.door.open_connections == 2
        await until(lambda: server.door.open_connections == 0)


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be(caplog: pytest.LogCaptureFixture) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (500, before[1]))
        allow_open_files(400)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 500
        allow_open_files(800)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 800
        assert not caplog.records
        if before[1] != resource.RLIM_INFINITY:
            allow_open_files(before[1] + 1)
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
            assert "ulimit" in caplog.text
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# -- What is no request -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_bytes",
    [
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
    ],
)
async def test_garbage_is_answered_in_few_words_and_not_logged(
    request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with tone_server() as (url, server):
        answer = await bare_exchange(url, request_bytes)
        assert not answer or status_of(answer) == 400
        assert b"secret" not in answer
        assert len(answer) < 400
        await until(lambda: server.door.open_connections == 0)
        await is_served(url)
    assert not caplog.records


# -- TLS --------------------------------------------------------------------------------------------------------------


async def test_over_tls_all_is_the_same() -> None:
    trusting = ssl.create_default_context(cafile=TLS / "certificate.pem")
    async with tone_server(tls=tls_context(TLS / "certificate.pem", TLS / "key.pem")) as (url, server):
        assert url.startswith("https://")
        async with aiohttp.ClientSession() as session, session.get(f"{url}/healthz", ssl=trusting) as response:
            assert response.status == 200
        address = ws_url(url).replace("ws://", "wss://").replace("https://", "wss://")
        async with websockets.asyncio.client.connect(address, proxy=None, ssl=trusting) as socket:
            await socket.send('{"type": "session.config"}')
            assert "session.created" in str(await socket.recv())
            assert server.active_sessions == 1


async def test_a_handshake_that_never_ends_is_dropped() -> None:
    tls = tls_context(TLS / "certificate.pem", TLS / "key.pem")
    short = limits(header_timeout_s=0.2)
    async with tone_server(limits=short, tls=tls) as (url, _server), open_socket(url) as (reader, writer):
        writer.write(b"\x16\x03\x01")
        assert await dropped(reader)


def test_old_tls_is_not_spoken() -> None:
    assert tls_context(TLS / "certificate.pem", TLS / "key.pem").minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("certificate", "key", "words"),
    [
        ("nothing.pem", "key.pem", "cannot read .*nothing.pem"),
        ("certificate.pem", "nothing.pem", "cannot read .*nothing.pem"),
        ("certificate.pem", "other_key.pem", "KEY_VALUES_MISMATCH"),
        ("key.pem", "key.pem", "no PEM certificate chain"),
        ("certificate.pem", "certificate.pem", "no PEM certificate chain"),
        ("certificate.pem", "locked_key.pem", "without a password"),
        ("../test_connection_limits.py", "key.pem", "no PEM certificate chain"),
        ("", "key.pem", "cannot read"),
    ],
)
def test_unusable_files_are_named_in_plain_words(certificate: str, key: str, words: str) -> None:
    with pytest.raises(UnusableCertificate, match=words):
        tls_context(TLS / certificate, TLS / key)
