"""A whole server: its responses, which sessions it accepts, several engines, and how it ends."""

import asyncio
import gc
import json
import signal
import socket
import sys
import weakref
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
import websockets.asyncio.client
from websockets.exceptions import InvalidStatus

from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model
from realtime_tts.errors import CannotListen
from realtime_tts.frontends.native.messages import PROTOCOL
from realtime_tts.server.access import AccessRules
from realtime_tts.server.api_keys import KeyStore
from realtime_tts.server.app import Server, ServerLimits, ServerOptions, listening
from realtime_tts.server.connection_limits import ConnectionLimits
from realtime_tts.server.static_files import demo_folder
from realtime_tts.session.limits import SessionLimits
from realtime_tts.voices.store import VoiceStore
from tests.base_client import base_client, ws_url
from tests.fakes import Gate, spoken_pcm, until, wrapped
from tests.serving import bare_exchange, first_response, status_of, tone_server

STREAM = {"response_format": "pcm", "stream_audio": True}
LONG_TEXT = "This sentence is spoken again and again. " * 2000


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with tone_server() as (url, _server):
        yield url


@asynccontextmanager
async def get(url: str, **options: object) -> AsyncIterator[aiohttp.ClientResponse]:
    async with aiohttp.ClientSession() as session, session.get(url, **options) as response:  # type: ignore[arg-type]
        yield response


async def refusal(url: str, **headers: str) -> InvalidStatus:
    """The response to a connection that is refused before it is accepted."""
    with pytest.raises(InvalidStatus) as refused:
        async with websockets.asyncio.client.connect(ws_url(url), proxy=None, additional_headers=headers):
            pass
    return refused.value


# -- HTTP responses ------------------------------------------------------------------------------------------------


async def test_health_and_readiness(url: str) -> None:
    async with get(f"{url}/healthz") as response:
        assert response.status == 200
    async with base_client(url, **STREAM), get(f"{url}/readyz") as response:
        assert response.status == 200
        answer = await response.json()
    assert (answer["ready"], answer["reason"], answer["model"]) == (True, "ready", "tone")
    assert (answer["active_sessions"], answer["active_requests"], answer["waiting_requests"]) == (1, 0, 0)
    assert answer["places"] >= 1
    assert answer["costs"]["frame"]
    names = ("model", "ready", "reason", "active_requests", "waiting_requests", "queued_requests", "places")
    own = {name: answer[name] for name in names}
    assert answer["models"] == [{**own, "scheduler": "deadline", "costs": answer["costs"]}]


async def test_voices_are_listed(url: str) -> None:
    async with get(f"{url}/v1/audio/voices") as response:
        answer = await response.json()
    assert answer["model"] == "tone"
    assert answer["default"] == "tone_low"
    own = [voice["name"] for voice in answer["voices"] if "alias_of" not in voice]
    assert own == [voice.name for voice in tone.VOICES]


async def test_the_demo_page_and_its_files_are_served_with_a_strict_policy(url: str) -> None:
    files = sorted(path.name for path in demo_folder().iterdir() if path.suffix in (".js", ".css", ".html"))
    assert "index.html" in files
    for path in ("/", *(f"/static/{name}" for name in files)):
        async with get(url + path) as response:
            assert response.status == 200, path
            policy = response.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            kind = {"js": "javascript", "css": "text/css"}.get(path.rpartition(".")[2], "text/html")
            assert kind in response.headers["Content-Type"], path


async def test_nothing_outside_the_demo_folder_is_served(url: str) -> None:
    for path in (
        "/static/../pyproject.toml",
        "/static/%2e%2e/pyproject.toml",
        "/static/..%2fpyproject.toml",
        "/static/%2e%2e%5cpyproject.toml",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/index.html%00.txt",
        "/static/",
        "/pyproject.toml",
        "/v1/audio/speech/../../../healthz2",
    ):
        # Over a bare socket: clients normalise such a path before they send it.
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        response = await bare_exchange(url, request)
        assert status_of(response) in (400, 403, 404), (path, response[:200])
        assert b"Content-Security-Policy" in response or status_of(response) == 400, path
        assert b"build-system" not in response
        assert b"root:" not in response


async def test_every_error_of_the_api_has_one_shape(url: str) -> None:
    def http(method: str, path: str, *headers: str) -> bytes:
        lines = (f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", "")
        return "\r\n".join(lines).encode()

    options = ServerOptions(access=AccessRules(keys=KeyStore.from_plain("one=" + "k" * 40)))
    async with tone_server(options=options) as (closed_url, _), tone_server() as (draining_url, draining):
        await draining.drain(0.0)
        for server_url, request, status, code in (
            (url, http("GET", "/v1/nothing"), 404, "not_found"),
            (url, http("PUT", "/v1/models"), 405, "method_not_allowed"),
            (url, http("POST", "/v1/audio/speech", "Content-Length: 99999999"), 413, "request_too_big"),
            (url, http("POST", "/v1/audio/speech", "Content-Length: 0"), 415, "unsupported_media_type"),
            (url, http("GET", "/v1/audio/speech/stream"), 400, "invalid_request"),
            (url, http("GET", "/v1/audio/speech/stream?model=x"), 404, "model_not_found"),
            (url, http("GET", "/v1/audio/speech/stream?scheduler=x"), 400, "unknown_scheduler"),
            (url, http("GET", "/v1/models", "Host: evil"), 400, "invalid_request"),
            (url, http("GET", "/v1/models").replace(b"localhost", b"evil"), 403, "host_not_allowed"),
            (url, http("POST", "/v1/audio/speech", "Origin: http://evil"), 403, "origin_not_allowed"),
            (url, http("POST", "/v1/realtime/tokens"), 404, "tokens_not_needed"),
            (url, http("GET", "/v1/models/x"), 404, "model_not_found"),
            (url, http("GET", "/v1/models", "Content-Length: x"), 400, "invalid_request"),
            (closed_url, http("GET", "/v1/models"), 401, "unauthorized"),
            (draining_url, http("GET", "/v1/models"), 503, "not_ready"),
        ):
            response = await first_response(server_url, request)
            assert status_of(response) == status, (request, response)
            head, _, body = response.partition(b"\r\n\r\n")
            error = json.loads(body)["error"]
            assert (error["code"], set(error)) == (code, {"message", "type", "param", "code"}), request
            assert (b"Retry-After: 5" in head) is (status == 503)
            assert (b"WWW-Authenticate: Bearer" in head) is (status == 401)
            assert (b"Allow: GET,HEAD" in head) is (status == 405)


async def test_a_plain_request_to_the_websocket_s_path_is_refused(url: str) -> None:
    async with get(ws_url(url).replace("ws", "http", 1)) as response:
        assert response.status == 400
        assert (await response.json())["error"]["code"] == "invalid_request"


# -- Which sessions it accepts ----------------------------------------------------------------------------------------


async def test_pages_of_other_origins_are_refused_before_they_are_accepted(url: str) -> None:
    for origin in (
        *("https://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1.evil.example:1", "http://["),
        *("", "file://"),
    ):
        refused = await refusal(url, Origin=origin)
        assert refused.response.status_code == 403, origin
        assert json.loads(refused.response.body or b"")["error"]["code"] == "origin_not_allowed"


async def test_its_own_page_and_clients_without_an_origin_are_accepted(url: str) -> None:
    for headers in ({"Origin": url}, {}):
        async with websockets.asyncio.client.connect(ws_url(url), proxy=None, additional_headers=headers) as socket:
            await socket.send('{"type": "session.config"}')
            assert json.loads(await socket.recv())["type"] == "session.created"


async def test_the_subprotocol_is_optional_and_unknown_ones_are_ignored(url: str) -> None:
    for offered, chosen in ([PROTOCOL], PROTOCOL), (["other", PROTOCOL], PROTOCOL), (["other"], None):
        subprotocols = [websockets.Subprotocol(name) for name in offered]
        async with websockets.asyncio.client.connect(ws_url(url), proxy=None, subprotocols=subprotocols) as socket:
            assert socket.subprotocol == chosen


async def test_one_session_too_many_is_refused_until_another_ends() -> None:
    async with tone_server(limits=ServerLimits(max_sessions=2)) as (url, server), AsyncExitStack() as stack:
        first = await stack.enter_async_context(base_client(url, **STREAM))
        await stack.enter_async_context(base_client(url, **STREAM))
        refused = await refusal(url)
        assert refused.response.status_code == 503
        assert int(refused.response.headers["Retry-After"]) > 0
        assert json.loads(refused.response.body or b"")["error"]["code"] == "overloaded"
        async with get(f"{url}/readyz") as response:
            assert (await response.json())["active_sessions"] == 2
        first.socket.transport.abort()
        await until(lambda: server.active_sessions == 1)
        async with base_client(url, **STREAM) as third:
            assert (await third.speak("Hello.")).audio == [spoken_pcm("Hello.")]


async def test_of_many_concurrent_connections_only_max_sessions_are_accepted() -> None:
    async def connect(url: str) -> bool:
        try:
            socket = await websockets.asyncio.client.connect(ws_url(url), proxy=None)
        except InvalidStatus as refused:
            return refused.response.status_code != 503
        await finish.wait()
        await socket.close()
        return True

    finish = asyncio.Event()
    async with tone_server(limits=ServerLimits(max_sessions=3)) as (url, server):
        connecting = [asyncio.create_task(connect(url)) for _ in range(12)]
        await until(lambda: sum(task.done() for task in connecting) == 9)
        assert server.active_sessions == 3
        finish.set()
        assert sum(await asyncio.gather(*connecting)) == 3
        await until(lambda: server.active_sessions == 0)


async def test_a_stuck_engine_is_not_ready_and_no_session_is_accepted_until_it_recovers() -> None:
    gate = Gate()
    model = wrapped(tone.build(), "code2wav", gate)
    async with tone_server(model, config=EngineConfig(stage_timeout_s=0.1)) as (url, _server):
        async with base_client(url, **STREAM) as client:
            utterance = await client.speak("Hello there. Goodbye.")
            assert [sentence.failed for sentence in utterance.sentences] == [True, True]
            assert {error["code"] for error in utterance.errors} <= {"synthesis_failed", "engine_unavailable"}
            async with get(f"{url}/readyz") as response:
                assert response.status == 503
                assert "code2wav" in (await response.json())["reason"]
            async with get(f"{url}/healthz") as response:
                assert response.status == 200
            refused = await refusal(url)
            assert refused.response.status_code == 503
            assert int(refused.response.headers["Retry-After"]) > 0
            gate.opened.set()
            async with asyncio.timeout(10):
                while (await client.speak("Hello.")).audio != [spoken_pcm("Hello.")]:
                    pass
        async with get(f"{url}/readyz") as response:
            assert response.status == 200


# -- Several engines -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def comparing_server(
    compared: Model | None = None, limits: ServerLimits | None = None, refused: list[str] | None = None
) -> AsyncIterator[tuple[str, Server, EngineThread]]:
    """A server with a second engine under policy_c, and that engine."""
    config = EngineConfig(scheduler="policy_c", stage_timeout_s=0.1)
    engine = EngineThread(compared or tone.build(), MonotonicClock(), config=config)
    engine.start()
    options = ServerOptions(on_refused=([] if refused is None else refused).append)
    others = {"tone@policy_c": engine}
    try:
        async with tone_server(limits=limits, options=options, other_engines=others) as (url, server):
            yield url, server, engine
    finally:
        await engine.stop()


def under(scheduler: str, url: str) -> str:
    return f"{ws_url(url)}?scheduler={scheduler}"


def connected(address: str) -> websockets.asyncio.client.connect:
    return websockets.asyncio.client.connect(address, proxy=None)


async def is_greeted(socket: websockets.asyncio.client.ClientConnection) -> bool:
    await socket.send('{"type": "session.config"}')
    kinds = [json.loads(await socket.recv())["type"] for _ in range(2)]
    return kinds == ["session.created", "session.updated"]


async def test_the_schedulers_are_listed_with_the_default_first(url: str) -> None:
    async with get(f"{url}/v1/demo") as response:
        assert await response.json() == {"schedulers": ["deadline"], "clones": False}
    async with comparing_server() as (comparing_url, _, _), get(f"{comparing_url}/v1/demo") as response:
        assert await response.json() == {"schedulers": ["deadline", "policy_c"], "clones": False}


async def test_voices_are_accepted_if_the_model_clones_and_there_is_a_folder(tmp_path: Path) -> None:
    for clones, has_folder in ((True, True), (True, False), (False, True), (False, False)):
        model = tone.build()
        if clones:
            model = replace(model, info=replace(model.info, fields=model.info.fields | {"ref_audio"}))
        options = ServerOptions(voices=VoiceStore(tmp_path) if has_folder else None)
        async with tone_server(model, options=options) as (url, _), get(f"{url}/v1/demo") as response:
            assert (await response.json())["clones"] is (clones and has_folder)


async def test_a_session_uses_the_engine_that_its_url_or_first_config_names() -> None:
    gate = Gate()
    async with comparing_server(wrapped(tone.build(), "talker", gate)) as (url, server, engine):
        async with connected(under("policy_c", url)) as socket:
            assert await is_greeted(socket)
            await socket.send('{"type": "input.text", "text": "Hello."}')
            await socket.send('{"type": "input.done"}')
            await until(gate.entered.is_set)
            assert engine.status().active_requests == 1
            assert server.engines.default.status().active_requests == 0
            assert server.engine_status().active_requests == 1
            gate.opened.set()
        for query, config, model in (
            ("", "", "tone"),
            ("?scheduler=deadline", "", "tone"),
            ("?model=tone%40policy_c", "", "tone@policy_c"),
            ("?scheduler=policy_c", ', "model": "tone"', "tone"),
            ("", ', "model": "tone@policy_c"', "tone@policy_c"),
            ("?scheduler=policy_c", ', "model": "other"', "tone@policy_c"),
        ):
            async with connected(ws_url(url) + query) as socket:
                await socket.send(f'{{"type": "session.config"{config}}}')
                assert json.loads(await socket.recv())["model"] == model, (query, config)


async def test_a_scheduler_that_is_not_offered_is_refused_before_the_session_is_accepted() -> None:
    counted: list[str] = []
    names = ("edf_only", "nonsense", "", "Policy_C", "%0d%0aX-Evil:%201", "x" * 500)
    async with comparing_server(refused=counted) as (url, server, _):
        for name in names:
            with pytest.raises(InvalidStatus) as refused:
                async with connected(under(name, url)):
                    pass
            answer = refused.value.response
            error = json.loads(answer.body or b"")["error"]
            assert (answer.status_code, error["code"], error["param"]) == (400, "unknown_scheduler", "scheduler"), name
            assert "deadline, policy_c" in error["message"]
            assert len(error["message"]) < 200
            assert "X-Evil" not in answer.headers
        async with aiohttp.ClientSession() as client:
            body = {"model": "other", "voice": "tone_low", "input": "Hello."}
            async with client.post(f"{url}/v1/audio/speech?scheduler=nonsense", json=body) as response:
                assert response.status == 400
        assert server.active_sessions == 0
    assert counted == ["unknown_scheduler"] * len(names)


async def test_all_engines_share_the_capacity_of_a_server_and_its_end() -> None:
    async with (
        comparing_server(limits=ServerLimits(max_sessions=2)) as (url, server, _),
        connected(under("policy_c", url)) as compared,
        connected(ws_url(url)) as other,
    ):
        assert await is_greeted(compared)
        assert await is_greeted(other)
        assert server.active_sessions == 2
        for address in (under("policy_c", url), ws_url(url)):
            with pytest.raises(InvalidStatus) as refused:
                async with connected(address):
                    pass
            assert refused.value.response.status_code == 503
        draining = asyncio.create_task(server.drain(10))
        for socket in (compared, other):
            assert json.loads(await socket.recv())["type"] == "session.expiring"
            await socket.wait_closed()
            assert socket.close_code == 1012
        await draining


async def test_a_server_is_ready_while_all_engines_are_and_a_stuck_one_does_not_stop_the_others() -> None:
    gate = Gate()
    async with comparing_server(wrapped(tone.build(), "code2wav", gate)) as (url, _, engine):
        async with connected(under("policy_c", url)) as stuck:
            assert await is_greeted(stuck)
            await stuck.send('{"type": "input.text", "text": "Hello."}')
            await stuck.send('{"type": "input.done"}')
            await until(lambda: not engine.status().ready)
            async with get(f"{url}/readyz") as response:
                assert response.status == 503
                answer = await response.json()
                assert answer["reason"] == f"tone@policy_c: {engine.status().reason}"
                assert [(each["model"], each["ready"]) for each in answer["models"]] == [
                    ("tone", True),
                    ("tone@policy_c", False),
                ]
            with pytest.raises(InvalidStatus) as refused:
                async with connected(under("policy_c", url)):
                    pass
            assert refused.value.response.status_code == 503
            async with base_client(url, **STREAM) as client:
                assert (await client.speak("Hello.")).audio == [spoken_pcm("Hello.")]
            gate.opened.set()
        await until(lambda: engine.status().ready)
        async with get(f"{url}/readyz") as response:
            assert (response.status, (await response.json())["reason"]) == (200, "ready")


async def test_a_server_that_has_ended_keeps_no_engine_in_memory() -> None:
    async with tone_server() as (url, server):
        async with base_client(url, **STREAM) as client:
            await client.speak("Hello.")
        async with get(f"{url}/v1/models"):
            pass
        engine = weakref.ref(server.engines.default)
    await asyncio.sleep(0)
    gc.collect()
    assert engine() is None, "aiohttp keeps the application, and it must not keep the model"


# -- How it ends ------------------------------------------------------------------------------------------------------


async def test_a_server_that_stops_sends_every_client_the_reason() -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.001))
    stack = AsyncExitStack()
    url, server = await stack.enter_async_context(tone_server(model))
    async with base_client(url) as silent, base_client(url, **STREAM) as idle, base_client(url, **STREAM) as speaking:
        await idle.next("session.updated")
        await speaking.send_utterance(LONG_TEXT)
        await speaking.next("audio.start")
        stopping = asyncio.create_task(stack.aclose())
        for client in (silent, idle, speaking):
            error = await client.next("error")
            assert (error["code"], error["fatal"], error["retryable"]) == ("server_stopping", True, True)
            assert await client.close_code() == 1012
            assert client.socket.close_reason == "server_stopping"
        await stopping
    assert server.active_sessions == 0


async def test_a_port_in_use_is_reported() -> None:
    async with tone_server() as (url, server):
        port = urlsplit(url).port or 0
        other = Server(server.engines, MonotonicClock())
        with pytest.raises(CannotListen, match=f"port {port} of 127.0.0.1 is in use"):
            async with listening(other, "127.0.0.1", port):
                pass
        with pytest.raises(CannotListen, match="cannot listen on nowhere"):
            async with listening(Server(server.engines, MonotonicClock()), "nowhere.invalid", 0):
                pass


@asynccontextmanager
async def serve_command(port: int = 0) -> AsyncIterator[tuple[asyncio.subprocess.Process, list[str]]]:
    """`serve` as a separate process, and its lines until it is ready or has failed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "realtime_tts", "serve", "--model", "tone", "--port", str(port)),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said: list[str] = []
    try:
        async with asyncio.timeout(30):
            while line := (await process.stderr.readline()).decode():
                said.append(line.strip())
                if "Ready" in line:
                    break
            yield process, said
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_the_serve_command_ends_cleanly_while_a_session_is_speaking(number: signal.Signals) -> None:
    async with serve_command() as (process, said):
        url = said[-1].split()[-1]
        async with base_client(url, **STREAM) as client:
            await client.send_utterance(LONG_TEXT if number is signal.SIGINT else LONG_TEXT[:2000])
            await client.next("audio.start")
            process.send_signal(number)
            if number is signal.SIGINT:  # at once
                assert (await client.next("error"))["code"] == "server_stopping"
            else:  # not before what has begun is spoken to its end
                assert (await client.next("session.expiring"))["reason"] == "drain"
                await client.next("session.done")
            assert await client.close_code() == 1012
        _out, rest = await process.communicate()
        assert process.returncode == 0
        assert "Traceback" not in rest.decode()
        assert rest.decode().strip().endswith("Stopped.")


async def test_the_serve_command_reports_that_its_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        async with serve_command(taken.getsockname()[1]) as (process, said):
            assert await process.wait() == 1
            assert said[-1].startswith("Error: port")
            assert not any("Traceback" in line for line in said)


async def test_metrics_are_served_if_there_are_any_and_refusals_are_counted() -> None:
    async with tone_server() as (url, _server), get(f"{url}/metrics") as response:
        assert response.status == 404
    counted: list[str] = []
    options = ServerOptions(metrics_text=lambda: b"up 1\n", on_refused=counted.append)
    async with tone_server(limits=ServerLimits(max_sessions=1), options=options) as (url, _server):
        async with get(f"{url}/metrics") as response:
            assert await response.read() == b"up 1\n"
            assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        await refusal(url, Origin="https://evil.example")
        async with base_client(url, **STREAM):
            await refusal(url)
        async with get(f"{url}/v1/nothing") as response:
            assert response.status == 404
    assert counted == ["origin_not_allowed", "overloaded"]


def test_there_may_be_more_connections_than_sessions_by_default() -> None:
    assert ServerLimits(max_sessions=5000).of_connections().max_connections > 5000
    assert ServerLimits(connection=ConnectionLimits(max_connections=7)).of_connections().max_connections == 7


async def test_a_session_s_limits_are_announced() -> None:
    limits = SessionLimits(idle_s=123.0, max_pending_chars=77)
    async with tone_server(limits=ServerLimits(session=limits)) as (url, _server), base_client(url, **STREAM) as client:
        announced = (await client.next("session.created"))["limits"]
        assert (announced["idle_s"], announced["max_pending_chars"]) == (123.0, 77)
