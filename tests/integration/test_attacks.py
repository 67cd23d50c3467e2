"""Attacks against a real server, each of which must fail without harm to other clients."""

import asyncio
import gzip
import json
import logging
import os
import re
import resource
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import websockets.asyncio.client
from aiohttp import web
from websockets.exceptions import InvalidStatus

from realtime_tts.frontends.native.messages import PROTOCOL, STREAM_PATH
from realtime_tts.server.access import CALLER, AccessRules
from realtime_tts.server.api_keys import KeyStore, generate_key, key_line
from realtime_tts.server.app import TOKEN_PATH, Server, ServerLimits, ServerOptions
from realtime_tts.server.connection_limits import ConnectionLimits
from realtime_tts.server.static_files import SECURITY_HEADERS
from realtime_tts.server.tokens import TOKEN_PROTOCOL
from tests.base_client import base_client, ws_url
from tests.fakes import spoken_pcm, until
from tests.serving import bare_exchange, first_response, status_of, tone_server

ROOT = Path(__file__).parents[2]
KEY, LIMITED = generate_key(), generate_key()
KEYS = KeyStore.from_lines(
    [key_line("open", KEY), key_line("limited", LIMITED) + ":sessions=1,chars_per_minute=20"],
)
APP = "https://app.example"
RULES = AccessRules(keys=KEYS, allowed_origins=frozenset({APP}))
STREAM = {"response_format": "pcm", "stream_audio": True}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def echo(request: web.Request) -> web.Response:
    body = await request.read()
    return web.json_response({"caller": request[CALLER].name, "bytes": len(body)})


def add_echo(app: web.Application) -> None:
    app.router.add_post("/v1/echo", echo)


@asynccontextmanager
async def guarded(**limits: Any) -> AsyncIterator[tuple[str, Server]]:
    options = ServerOptions(access=RULES, metrics_text=lambda: b"up 1\n")
    async with tone_server(limits=ServerLimits(**limits), options=options, add_routes=add_echo) as (url, server):
        yield url, server


@asynccontextmanager
async def ask(method: str, url: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
    async with aiohttp.ClientSession() as session, session.request(method, url, **options) as response:
        yield response


async def connects(
    url: str, headers: dict[str, str] | None = None, *, token: str = "", protocols: list[str] | None = None
) -> tuple[int, str]:
    """101 and the subprotocol of a working session, or the status and the code of a refusal."""
    address = ws_url(url) + (f"?token={token}" if token else "")
    subprotocols = [websockets.Subprotocol(name) for name in protocols or [PROTOCOL]]
    try:
        async with websockets.asyncio.client.connect(
            address, proxy=None, additional_headers=headers, subprotocols=subprotocols
        ) as connection:
            await connection.send('{"type": "session.config"}')
            assert json.loads(await connection.recv())["type"] == "session.created"
            return 101, connection.subprotocol or ""
    except InvalidStatus as refused:
        return refused.response.status_code, json.loads(refused.response.body or b"{}")["error"]["code"]


async def new_token(url: str, key: str = KEY) -> str:
    async with ask("POST", url + TOKEN_PATH, headers=bearer(key)) as response:
        assert response.status == 200
        answer = await response.json()
        assert answer["expires_at"] > 0
        token: str = answer["token"]
        return token


# -- Keys and tokens --------------------------------------------------------------------------------------------------


async def test_a_key_is_accepted_and_none_or_a_wrong_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with guarded() as (url, _server):
        assert await connects(url, bearer(KEY)) == (101, PROTOCOL)
        wrong = generate_key()
        for headers in ({}, bearer(wrong), bearer(KEY[:-1]), {"Authorization": KEY}):
            assert await connects(url, headers) == (401, "unauthorized")
        async with ask("POST", f"{url}/v1/echo", data=b"abc") as response:
            assert response.status == 401
            assert response.headers["WWW-Authenticate"] == "Bearer"
            assert response.headers["X-Content-Type-Options"] == "nosniff"
        async with ask("POST", f"{url}/v1/echo", data=b"abc", headers=bearer(KEY)) as response:
            assert await response.json() == {"caller": "open", "bytes": 3}
        for path in ("/metrics", "/v1/nothing", "/v1/audio/speech/stream"):
            async with ask("GET", url + path) as response:
                assert response.status == 401
        async with ask("GET", f"{url}/metrics", headers=bearer(KEY)) as response:
            assert await response.read() == b"up 1\n"
    ours = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("websockets"))
    assert KEY not in ours
    assert wrong not in ours


async def test_no_spelling_of_a_path_avoids_the_key() -> None:
    async with guarded() as (url, _server):
        for path in (
            "/v1/echo",
            "//v1/echo",
            "/./v1/echo",
            "/x/../v1/echo",
            "/%76%31/echo",
            "/v1%2fecho",
            "/v1/%65cho",
            "/v1//echo",
            "/V1/echo",
            "/v1/echo/",
            "/v1/echo;x",
            "/v1/echo?token=",
            "http://localhost/v1/echo",
            "http://localhost//v1/echo",
            "/healthz/../v1/echo",
            "/static/../v1/echo",
            "/static/..%2fv1/echo",
        ):
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n"
            response = await bare_exchange(url, f"{head}\r\n".encode())
            assert status_of(response) in (400, 401, 404, 405), path


async def test_a_token_works_once_in_the_query_or_the_subprotocol() -> None:
    async with guarded() as (url, _server):
        for way in ("query", "subprotocol"):
            token = await new_token(url)
            arguments: dict[str, Any] = (
                {"token": token} if way == "query" else {"protocols": [PROTOCOL, TOKEN_PROTOCOL + token]}
            )
            assert await connects(url, **arguments) == (101, PROTOCOL)
            assert await connects(url, **arguments) == (401, "unauthorized")
        assert await connects(url, token=secrets.token_urlsafe(32)) == (401, "unauthorized")
        # A token is for one session: no API call, and no token for another one.
        token = await new_token(url)
        for path in (TOKEN_PATH, "/v1/echo"):
            async with ask("POST", f"{url}{path}?token={token}") as response:
                assert response.status == 401
        assert await connects(url, token=token) == (101, PROTOCOL)


async def test_of_concurrent_uses_of_a_token_one_succeeds() -> None:
    async with guarded() as (url, _server):
        token = await new_token(url)
        outcomes = await asyncio.gather(*(connects(url, token=token) for _ in range(10)))
        assert sorted(outcomes) == [(101, PROTOCOL)] + [(401, "unauthorized")] * 9


async def test_an_expired_token_is_refused() -> None:
    async with guarded(token_life_s=0.05) as (url, _server):
        token = await new_token(url)
        await asyncio.sleep(0.1)
        assert await connects(url, token=token) == (401, "unauthorized")


async def test_a_token_does_not_replace_a_wrong_key() -> None:
    async with guarded() as (url, _server):
        assert await connects(url, bearer("wrong"), token=await new_token(url)) == (401, "unauthorized")


async def test_a_server_without_keys_issues_no_tokens() -> None:
    async with tone_server() as (url, _server), ask("POST", url + TOKEN_PATH) as response:
        assert response.status == 404


async def test_a_secret_offered_as_the_only_subprotocol_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with guarded() as (url, _server):
        for secret in (KEY, TOKEN_PROTOCOL + await new_token(url)):
            caplog.set_level("DEBUG")
            async with websockets.asyncio.client.connect(
                ws_url(url),
                proxy=None,
                additional_headers=bearer(KEY),
                subprotocols=[websockets.Subprotocol(secret)],
                logger=logging.getLogger("websockets.of_the_client"),
            ) as connection:
                assert connection.subprotocol is None
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("websockets")]
    assert not [line for line in ours if KEY in line or TOKEN_PROTOCOL in line]


# -- Quotas -----------------------------------------------------------------------------------------------------------


async def test_a_key_at_its_session_quota_is_refused_and_other_keys_are_not() -> None:
    async with guarded() as (url, server):
        async with websockets.asyncio.client.connect(ws_url(url), proxy=None, additional_headers=bearer(LIMITED)):
            assert await connects(url, bearer(LIMITED)) == (429, "quota_exceeded")
            token = await new_token(url, LIMITED)
            assert await connects(url, token=token) == (429, "quota_exceeded")  # a token has its key's quota
            assert await connects(url, bearer(KEY)) == (101, PROTOCOL)
        await until(lambda: server.active_sessions == 0)
        assert await connects(url, bearer(LIMITED)) == (101, PROTOCOL)


async def test_a_refusal_for_a_quota_states_when_to_retry() -> None:
    async with guarded() as (url, _server):
        async with websockets.asyncio.client.connect(ws_url(url), proxy=None, additional_headers=bearer(LIMITED)):
            with pytest.raises(InvalidStatus) as refused:
                await websockets.asyncio.client.connect(ws_url(url), proxy=None, additional_headers=bearer(LIMITED))
        assert int(refused.value.response.headers["Retry-After"]) > 0


# -- Origin and Host --------------------------------------------------------------------------------------------------


async def test_a_page_of_another_origin_can_neither_connect_nor_post() -> None:
    async with guarded() as (url, _server):
        for origin in ("https://evil.example", "null", f"{APP}.evil.example", "http://localhost"):
            assert await connects(url, bearer(KEY) | {"Origin": origin}) == (403, "origin_not_allowed")
            async with ask("POST", f"{url}/v1/echo", headers=bearer(KEY) | {"Origin": origin}) as response:
                assert response.status == 403
                assert "Access-Control-Allow-Origin" not in response.headers
        assert await connects(url, bearer(KEY) | {"Origin": APP}) == (101, PROTOCOL)


async def test_a_page_of_a_listed_origin_may_use_the_http_api_and_read_even_its_refusals() -> None:
    async with guarded() as (url, _server):
        asks = {"Origin": APP, "Access-Control-Request-Method": "POST"}
        async with ask("OPTIONS", f"{url}/v1/echo", headers=asks) as response:
            assert response.status == 204
            assert response.headers["Access-Control-Allow-Origin"] == APP
        for headers, status in ((bearer(KEY), 200), ({}, 401)):
            async with ask("POST", f"{url}/v1/echo", headers=headers | {"Origin": APP}) as response:
                assert response.status == status
                assert response.headers["Access-Control-Allow-Origin"] == APP
                assert response.headers["Vary"] == "Origin"
        async with ask("OPTIONS", f"{url}/v1/echo", headers=asks | {"Origin": "https://evil.example"}) as response:
            assert response.status in (401, 403)
            assert "Access-Control-Allow-Origin" not in response.headers


async def test_a_name_rebound_to_this_machine_reaches_nothing() -> None:
    async with tone_server() as (url, _server):
        port = urlsplit(url).port
        for path in ("/", STREAM_PATH, "/v1/echo", "/metrics", "/static/index.html"):
            for host in (f"evil.example:{port}", f"localhost.evil.example:{port}", "", f"0.0.0.0:{port}"):
                lines = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nConnection: close\r\n\r\n"
                response = await bare_exchange(url, lines.encode())
                assert status_of(response) == 403, (path, host)
                assert b"host_not_allowed" in response


# -- Too large --------------------------------------------------------------------------------------------------------


async def test_a_body_too_large_is_refused_before_or_while_it_is_read() -> None:
    async with guarded(max_body_bytes=10_000) as (url, _server):
        head = f"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n"
        announced = await first_response(url, f"{head}Content-Length: 10001\r\n\r\n".encode())
        assert status_of(announced) == 413
        assert b"request_too_big" in announced
        chunk = b"3e8\r\n" + b"x" * 1000 + b"\r\n"
        unannounced = await first_response(url, f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * 20)
        assert status_of(unannounced) == 413
        async with ask("POST", f"{url}/v1/echo", data=b"x" * 10_000, headers=bearer(KEY)) as response:
            assert (await response.json())["bytes"] == 10_000


async def test_headers_too_large_or_too_many_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with guarded() as (url, _server):
        for line in ("Authorization: Bearer " + "x" * 9000, "\r\n".join(f"X-{n}: {n}" for n in range(200))):
            answer = await bare_exchange(url, f"GET / HTTP/1.1\r\nHost: localhost\r\n{line}\r\n\r\n".encode())
            assert status_of(answer) == 400
        answer = await bare_exchange(url, b"GET /?" + b"x" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status_of(answer) == 400
    assert not caplog.records


async def test_a_message_too_big_ends_its_session_and_no_other() -> None:
    async with tone_server() as (url, _server), base_client(url, **STREAM) as other, base_client(url) as attacker:
        await attacker.socket.send("x" * 300_000)
        assert (await attacker.next("error"))["code"] == "message_too_big"
        assert await attacker.close_code() == 1009
        assert (await other.speak("Hello.")).audio == [spoken_pcm("Hello.")]


# -- Malformed requests -----------------------------------------------------------------------------------------------

SPEECH = b'{"input": "Hello.", "response_format": "pcm"}'


def http_request(line: str, *fields: str, body: bytes = b"") -> bytes:
    head = "\r\n".join((f"{line} HTTP/1.1", "Host: localhost", "Connection: close", *fields))
    return f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode("latin-1") + body


def handshake(key: str) -> bytes:
    fields = ("Upgrade: websocket", "Connection: upgrade", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}")
    # A refused handshake leaves the connection open.
    return http_request(f"GET {STREAM_PATH}", *fields).replace(b"Connection: close\r\n", b"")


async def test_a_body_with_a_false_encoding_is_the_client_s_error(caplog: pytest.LogCaptureFixture) -> None:
    packed = gzip.compress(SPEECH)
    bodies = (
        *(("gzip", SPEECH, 400), ("deflate", SPEECH, 400), ("gzip", packed[:-10], 400), ("gzip", packed + SPEECH, 400)),
        *(("compress", SPEECH, 415), ("gzip, gzip", packed, 415), ("gzip", packed, 200), ("identity", SPEECH, 200)),
    )
    async with tone_server() as (url, _server):
        for encoding, body, status in bodies:
            fields = (f"Content-Encoding: {encoding}", "Content-Type: application/json")
            response = await bare_exchange(url, http_request("POST /v1/audio/speech", *fields, body=body))
            assert status_of(response) == status, (encoding, body)
    assert not caplog.records


async def test_no_name_of_a_static_file_is_an_error_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    async with tone_server() as (url, _server):
        for name in ("a" * 300, "a/" * 2000, "%00", "%ed%a0%80", "%ff", "..%5c..%5cx", "con", "a:b", "."):
            assert status_of(await bare_exchange(url, http_request(f"GET /static/{name}"))) == 404, name
    assert not caplog.records


async def test_every_response_has_the_security_headers_and_names_no_version() -> None:
    requests = {
        "not HTTP": b"\x16\x03\x01\r\n\r\n",
        "no such version": b"GET / HTTP/9.9\r\n\r\n",
        "wrong length": http_request("POST /v1/audio/speech", "Content-Length: 5"),
        "wrong chunk": http_request("POST /v1/nothing", "Transfer-Encoding: chunked", body=b"zz\r\n").replace(
            b"Content-Length", b"X"
        ),
        "URL with an open bracket": http_request("GET http://[::1/"),
        "URL with a port too large": http_request("GET http://localhost:99999/v1/models"),
        "unknown expectation": http_request("GET /v1/models", "Expect: tea"),
        "another name": http_request("GET /v1/models").replace(b"localhost", b"evil.example"),
        "no such path": http_request("GET /nothing"),
        "page": http_request("GET /"),
        "health": http_request("GET /healthz"),
    }
    async with tone_server() as (url, _server):
        for name, request in requests.items():
            head = (await bare_exchange(url, request)).partition(b"\r\n\r\n")[0].decode("latin-1")
            fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:])
            assert {each: fields.get(each) for each in SECURITY_HEADERS} == SECURITY_HEADERS, name
            assert not re.search("aiohttp|python", head, re.IGNORECASE), name


async def test_every_refusal_by_the_api_is_json_with_a_code(caplog: pytest.LogCaptureFixture) -> None:
    json_type = "Content-Type: application/json"
    requests = (
        *(http_request("GET /v1/nothing"), http_request("PUT /v1/models"), http_request("GET /v1/models/none")),
        http_request("GET /v1/audio/voices?model=%ff%00"),
        http_request("DELETE /v1/audio/voices/" + "a" * 300),
        http_request("POST /v1/audio/speech", body=b"{}"),
        *(http_request("POST /v1/audio/speech", json_type, body=body) for body in (b"", b"{", b"[]", b"\xff", b"{}")),
        http_request("POST /v1/audio/speech", f"{json_type}; charset=none", body=b"{}"),
        http_request("POST /v1/audio/speech", json_type, "Content-Encoding: gzip", body=SPEECH),
        http_request("POST /v1/audio/voices", "Content-Type: multipart/form-data", body=b"x"),
        http_request("POST /v1/realtime/tokens"),
        http_request(f"GET {STREAM_PATH}"),
        http_request(f"GET {STREAM_PATH}", "Upgrade: websocket"),
        http_request(f"POST {STREAM_PATH}", body=b"x"),
        *(handshake(key) for key in ("short", "\xff" * 24, "", "=" * 24)),
        http_request("GET /v1/models", "Expect: tea"),
        http_request("GET /v1/models", "Host: other"),
        http_request("OPTIONS /v1/models"),
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    )
    async with tone_server() as (url, _server):
        for request in requests:
            head, _, body = (await first_response(url, request)).partition(b"\r\n\r\n")
            assert 400 <= status_of(head) < 500, request
            assert b"content-type: application/json" in head.lower(), request
            error = json.loads(body)["error"]
            assert error["code"], request
            assert error["message"], request
    assert not caplog.records


# -- Floods -----------------------------------------------------------------------------------------------------------


@contextmanager
def files_allowed(wanted: int) -> Iterator[int]:
    """As many open files as the system allows, up to `wanted`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    try:
        yield max(soft, allowed)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_half_open_sockets_do_not_keep_other_clients_out(count: int) -> None:
    limits = ConnectionLimits(max_connections=200, header_timeout_s=60)
    with files_allowed(count + 2000) as allowed:
        async with tone_server(limits=ServerLimits(connection=limits)) as (url, server):
            before = open_files()
            address = (urlsplit(url).hostname, urlsplit(url).port)
            held: list[socket.socket] = []
            loop = asyncio.get_running_loop()
            try:
                async with base_client(url, **STREAM) as client:
                    for number in range(min(count, allowed - 1000)):
                        half_open = socket.socket()
                        half_open.setblocking(False)
                        held.append(half_open)
                        await loop.sock_connect(half_open, address)
                        if number % 3 == 0:
                            await loop.sock_sendall(half_open, b"GET / HTTP/1.1\r\nHost: loc")
                        assert server.connections.open_connections <= limits.max_connections
                    assert (await client.speak("Still here.")).audio == [spoken_pcm("Still here.")]
                    async with base_client(url, **STREAM) as another:
                        assert (await another.speak("Hello.")).audio == [spoken_pcm("Hello.")]
            finally:
                for half_open in held:
                    half_open.close()
            await until(lambda: server.connections.open_connections == 0)
            await until(lambda: open_files() <= before)


@asynccontextmanager
async def serve_command(*arguments: str, open_files: int) -> AsyncIterator[tuple[str, list[str]]]:
    """The URL of the command `serve` with few open files allowed, and the lines that it printed before."""
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", f'ulimit -n {open_files} && exec "$@"', "sh"),
        *(sys.executable, "-m", "realtime_tts", "serve", "--model", "tone", "--port", "0", *arguments),
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stderr is not None
    lines: list[str] = []
    try:
        async with asyncio.timeout(60):
            while not (found := re.search(r"listening on (http\S+)", lines[-1] if lines else "")):
                lines.append((await process.stderr.readline()).decode())
                assert lines[-1], lines
        yield found[1], lines
    finally:
        process.terminate()
        await process.communicate()


@pytest.mark.slow
async def test_with_few_open_files_the_oldest_idle_connection_is_still_dropped_for_a_new_client() -> None:
    async with serve_command(open_files=150) as (url, lines):
        assert "only 150 files may be open: at most 75 connections instead of 1024; raise `ulimit -n`" in "".join(lines)
        half_open = [await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port) for _ in range(200)]
        async with base_client(url, **STREAM) as client:
            assert (await client.speak("Hello.")).audio == [spoken_pcm("Hello.")]
        for _reader, writer in half_open:
            writer.close()


async def test_slow_senders_of_headers_use_no_session_capacity() -> None:
    limits = ConnectionLimits(header_timeout_s=0.2)
    async with tone_server(limits=ServerLimits(max_sessions=1, connection=limits)) as (url, server):
        answers = [bare_exchange(url, b"GET /v1/audio/speech/stream HTTP/1.1\r\nHost: loc") for _ in range(50)]
        slow = asyncio.gather(*answers)
        async with base_client(url, **STREAM) as client:
            assert (await client.speak("Hello.")).audio == [spoken_pcm("Hello.")]
        assert set(await slow) == {b""}
        await until(lambda: server.connections.open_connections == 0)


async def test_a_short_text_with_a_long_pronunciation_is_not_a_way_around_the_quota() -> None:
    async with guarded() as (url, _server), aiohttp.ClientSession() as http:
        body = {"input": "Go on. Go on.", "pronunciations": {"go": "b" * 200}, "response_format": "pcm"}
        async with http.post(f"{url}/v1/audio/speech", json=body, headers=bearer(LIMITED)) as response:
            error = (await response.json())["error"]
            assert (response.status, error["code"]) == (429, "quota_exceeded")


def test_every_file_that_security_md_names_exists() -> None:
    named = re.findall(r"`((?:[a-z_]+/)*(?:[a-z_]+\.py|[a-z_]+/))`", (ROOT / "SECURITY.md").read_text("utf-8"))
    assert len(named) > 15
    for name in named:
        folders = (ROOT, ROOT / "realtime_tts", ROOT / "realtime_tts/server")
        assert any((folder / name).exists() for folder in folders), name
