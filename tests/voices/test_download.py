"""Downloads do not reach the server's own network: not directly, not by redirect, not by DNS rebinding."""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.errors import InvalidConfig
from realtime_tts.voices.download import FetchPolicy, fetch, is_public_address
from realtime_tts.voices.resolver import BoundedResolver

FILE = bytes(range(256)) * 40
LOCAL = FetchPolicy(
    schemes=frozenset({"http"}),
    ports=None,
    is_allowed=lambda address: str(address) == "127.0.0.1",
    max_bytes=len(FILE),
    timeout_s=10.0,
)
"""Allows the test's own server only."""


class FakeResolver(AbstractResolver):
    """Names with their addresses, one after the other if a name changes."""

    def __init__(self, **names: list[str]) -> None:
        self.names = {name.replace("_", "."): addresses for name, addresses in names.items()}
        self.requested: list[str] = []

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[ResolveResult]:
        self.requested.append(host)
        if host not in self.names:
            raise OSError("no such name")
        answers = self.names[host]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in answer.split()
        ]

    async def close(self) -> None: ...


class FileServer:
    def __init__(self) -> None:
        self.url = ""
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.redirect_to = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path)
        self.headers.append(dict(request.headers))
        match request.path:
            case "/file":
                return web.Response(body=FILE, content_type="text/html")
            case "/redirect":
                return web.Response(status=302, headers={"Location": self.redirect_to})
            case "/long":
                return web.Response(body=FILE + b"!")
            case "/chunked":
                return await self._endless(request)
            case "/slow":
                await asyncio.sleep(60)
            case "/packed":
                return web.Response(body=b"\x1f\x8b packed", headers={"Content-Encoding": "gzip"})
        return web.Response(status=404)

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100_000):
            await response.write(b"x" * 1000)
        return response


@asynccontextmanager
async def file_server() -> AsyncIterator[FileServer]:
    server = FileServer()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()


async def refused(url: str, policy: FetchPolicy = LOCAL, resolver: AbstractResolver | None = None) -> str:
    with pytest.raises(InvalidConfig) as error:
        await fetch(url, policy, resolver or FakeResolver())
    return str(error.value)


# -- Downloads --------------------------------------------------------------------------------------------------------


async def test_a_file_is_complete_whatever_its_content_type() -> None:
    async with file_server() as server:
        assert await fetch(f"{server.url}/file", LOCAL, BoundedResolver()) == FILE
        assert not {"Cookie", "Authorization", "Referer"} & set(server.headers[0])


async def test_a_name_is_resolved_once_and_connected_to_as_resolved() -> None:
    async with file_server() as server:
        # A second request for the name would give another address.
        resolver = FakeResolver(files_example=["127.0.0.1", "10.0.0.1"])
        url = server.url.replace("127.0.0.1", "files.example") + "/file"
        assert await fetch(url, LOCAL, resolver) == FILE
        assert resolver.requested == ["files.example"]
        assert server.headers[0]["Host"].startswith("files.example:")


async def test_redirects_are_followed_up_to_a_limit() -> None:
    async with file_server() as server:
        server.redirect_to = "/file"
        assert await fetch(f"{server.url}/redirect", LOCAL, BoundedResolver()) == FILE
        server.redirect_to = "/redirect"
        assert "redirects more than 3 times" in await refused(f"{server.url}/redirect")
        assert server.requests.count("/redirect") == 1 + 4


async def test_a_compressed_file_is_not_decompressed() -> None:
    async with file_server() as server:
        assert await fetch(f"{server.url}/packed", LOCAL, BoundedResolver()) == b"\x1f\x8b packed"


# -- Refusals ---------------------------------------------------------------------------------------------------------


PRIVATE_HOSTS = (
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "0",
    "0.0.0.0",
    "１２７.0.0.1",
    "127。0。0。1",
    "localhost",
    "localhost.",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::]",
    "[fe80::1]",
    "[fe80::1%25lo]",
    "[fc00::1]",
    "[fec0::1]",
    "[ff02::1]",
    "169.254.169.254",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
)


async def test_by_default_no_spelling_of_a_private_address_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(*_arguments: object, **_options: object) -> None:
        raise AssertionError("there was a connection")

    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", connect)
    policy = FetchPolicy(schemes=frozenset({"http", "https"}))
    for host in PRIVATE_HOSTS:
        for scheme in ("http", "https"):
            with pytest.raises(InvalidConfig):
                await fetch(f"{scheme}://{host}/", policy, BoundedResolver())


async def test_a_redirect_to_a_private_address_is_refused() -> None:
    async with file_server() as server:
        for target in ("http://10.0.0.1/", "//10.0.0.1/", "http://inner.example/", "http://[::1]/"):
            server.redirect_to = target
            words = await refused(f"{server.url}/redirect", resolver=FakeResolver(inner_example=["10.0.0.1"]))
            assert "10.0" not in words, target


async def test_a_redirect_to_another_scheme_is_refused() -> None:
    async with file_server() as server:
        for target in ("file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/", "https://a.example"):
            server.redirect_to = target
            assert "only http URLs" in await refused(f"{server.url}/redirect"), target


async def test_a_name_with_one_private_address_is_refused() -> None:
    async with file_server() as server:
        url = server.url.replace("127.0.0.1", "files.example") + "/file"
        for addresses in ("127.0.0.1 10.0.0.1", "10.0.0.1 127.0.0.1", "::1", "::ffff:127.0.0.2"):
            await refused(url, resolver=FakeResolver(files_example=[addresses]))
        assert not server.requests


async def test_a_refused_an_unknown_and_a_closed_address_give_the_same_message() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed_port = taken.getsockname()[1]
    resolver = FakeResolver(inner_example=["10.0.0.1"])
    words = {
        await refused("http://inner.example/", resolver=resolver),
        await refused("http://10.0.0.1/", resolver=resolver),
        await refused("http://unknown.example/", resolver=resolver),
        await refused(f"http://127.0.0.1:{closed_port}/", resolver=resolver),
    }
    assert len(words) == 1


async def test_a_file_that_is_too_long_is_not_read_to_its_end() -> None:
    async with file_server() as server:
        for path in ("/long", "/chunked"):
            assert "more than 10240 bytes" in await refused(server.url + path), path


async def test_a_slow_server_is_a_timeout() -> None:
    async with file_server() as server:
        assert "within 0.2 s" in await refused(f"{server.url}/slow", replace(LOCAL, timeout_s=0.2))


async def test_an_error_status_is_reported() -> None:
    async with file_server() as server:
        assert "status 404" in await refused(f"{server.url}/nothing")


async def test_by_default_only_https_on_common_ports_is_fetched() -> None:
    assert "only https" in await refused("http://files.example/", FetchPolicy())
    assert "port 22" in await refused("https://files.example:22/", FetchPolicy())


BAD_URLS = (
    "",
    "http:",
    "http://",
    "http:///file",
    "//127.0.0.1/",
    "file:///etc/passwd",
    "http://user:secret@127.0.0.1/",
    "http://@127.0.0.1/x",
    "http://[::1",
    "http://127.0.0.1:99999/",
    "http://127.0.0.1:x/",
    "http://\ud800/",
    "http://a b/",
    "http://a\r\nHost: b/",
    "http://" + "a" * 5000,
    "http://" + "a" * 300 + "/",
    "http://%31%32%37.0.0.1/",
)


async def test_a_bad_url_is_refused_with_a_short_message_without_its_password() -> None:
    for url in BAD_URLS:
        words = await refused(url)
        assert "secret" not in words, ascii(url)
        assert len(words) < 200, ascii(url)


@given(st.text(max_size=60).map(lambda text: f"http://{text}"))
@settings(max_examples=40)
def test_any_url_is_refused_and_raises_nothing_else(url: str) -> None:
    asyncio.run(refused(url, replace(LOCAL, is_allowed=lambda _address: False)))


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    async with file_server() as server:
        assert await fetch(f"{server.url}/file", LOCAL, BoundedResolver()) == FILE


# -- Addresses --------------------------------------------------------------------------------------------------------


def test_public_addresses_are_allowed() -> None:
    for address in ("1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"):
        assert is_public_address(ipaddress.ip_address(address)), address


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_inside_an_ipv6_one_counts(address: ipaddress.IPv4Address) -> None:
    for wrapped in (f"::ffff:{address}", f"64:ff9b::{address}"):
        assert is_public_address(ipaddress.ip_address(wrapped)) == is_public_address(address)


@given(st.ip_addresses())
def test_no_private_address_is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    inner = (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
    )
    mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    assert not (inner and not mapped and address not in ipaddress.ip_network("64:ff9b::/96")) or not is_public_address(
        address
    )
