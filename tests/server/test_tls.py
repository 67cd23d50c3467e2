"""TLS: the server works over it, and unusable certificates are named."""

import ssl
from pathlib import Path

import aiohttp
import pytest
import websockets.asyncio.client

from realtime_tts.errors import UnusableCertificate
from realtime_tts.server.app import ServerLimits
from realtime_tts.server.connection_limits import ConnectionLimits
from realtime_tts.server.tls import tls_context
from tests.base_client import ws_url
from tests.serving import bare_exchange, tone_server

TLS = Path(__file__).parent / "tls"


async def test_http_and_websockets_work_over_tls() -> None:
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
    short = ServerLimits(connection=ConnectionLimits(header_timeout_s=0.2))
    async with tone_server(limits=short, tls=tls) as (url, _server):
        assert await bare_exchange(url, b"\x16\x03\x01") == b""


def test_old_versions_of_tls_are_refused() -> None:
    assert tls_context(TLS / "certificate.pem", TLS / "key.pem").minimum_version == ssl.TLSVersion.TLSv1_2


def test_unusable_files_are_named() -> None:
    for certificate, key, words in (
        ("nothing.pem", "key.pem", "cannot read .*nothing.pem"),
        ("certificate.pem", "nothing.pem", "cannot read .*nothing.pem"),
        ("certificate.pem", "other_key.pem", "KEY_VALUES_MISMATCH"),
        ("key.pem", "key.pem", "not a PEM certificate chain"),
        ("certificate.pem", "certificate.pem", "not a PEM certificate chain"),
        ("certificate.pem", "locked_key.pem", "without a password"),
        ("../test_tls.py", "key.pem", "not a PEM certificate chain"),
        ("", "key.pem", "cannot read"),
    ):
        with pytest.raises(UnusableCertificate, match=words):
            tls_context(TLS / certificate, TLS / key)
