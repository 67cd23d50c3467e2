"""Which requests need a key, and which account they belong to."""

import pytest
from aiohttp import web

from realtime_tts.clock import VirtualClock
from realtime_tts.errors import Unauthorized
from realtime_tts.frontends.native.messages import PROTOCOL, STREAM_PATH
from realtime_tts.server.access import CALLER, HEALTH_PATHS, METRICS_PATH, Caller
from realtime_tts.server.api_keys import KeyStore, generate_key, key_line
from realtime_tts.server.middleware.auth import auth_middleware
from realtime_tts.server.tokens import TOKEN_PROTOCOL, TokenStore
from tests.server.middleware.requests import ask, passes

KEY = generate_key()
KEYS = KeyStore.from_lines([key_line("one", KEY)])
BEARER = {"Authorization": f"Bearer {KEY}"}


async def test_the_api_and_metrics_need_a_key_if_there_are_keys() -> None:
    clock = VirtualClock()
    check, open_to_all = (auth_middleware(keys, TokenStore(clock), clock) for keys in (KEYS, None))
    for path in (STREAM_PATH, "/v1/audio/voices", "/v1/demo", "/v1/audio/speech", "/v1/nothing", METRICS_PATH):
        with pytest.raises(Unauthorized):
            await passes(check, ask("GET", path))
        request = ask("GET", path, **BEARER)
        assert await passes(check, request)
        assert request[CALLER].name == "one"
        anonymous = ask("GET", path)
        assert await passes(open_to_all, anonymous)
        assert anonymous[CALLER].key is None


async def test_the_demo_page_and_health_need_no_key() -> None:
    clock = VirtualClock()
    for path in ("/", "/static/player.js", *HEALTH_PATHS):
        request = ask("GET", path)
        assert await passes(auth_middleware(KEYS, TokenStore(clock), clock), request)
        assert CALLER not in request


async def test_a_token_opens_one_session_with_its_key_s_quota_and_nothing_else() -> None:
    clock = VirtualClock()
    tokens = TokenStore(clock)
    check = auth_middleware(KEYS, tokens, clock)

    async def caller_of(request: web.Request) -> Caller:
        assert await passes(check, request)
        return request[CALLER]

    def in_query(path: str, token: str) -> web.Request:
        return ask("GET", f"{path}?token={token}")

    def in_subprotocol(path: str, token: str) -> web.Request:
        return ask("GET", path, **{"Sec-WebSocket-Protocol": f"{PROTOCOL}, {TOKEN_PROTOCOL}{token}"})

    by_key = await caller_of(ask("GET", STREAM_PATH, **BEARER))
    assert (await caller_of(ask("GET", STREAM_PATH, **BEARER))).quota is by_key.quota
    assert by_key.key is not None
    for with_token in (in_query, in_subprotocol):
        token = tokens.issue(by_key.key)
        for path in ("/v1/audio/speech", "/v1/realtime/tokens", METRICS_PATH):
            with pytest.raises(Unauthorized):
                await passes(check, with_token(path, token))
        assert (await caller_of(with_token(STREAM_PATH, token))).quota is by_key.quota
        with pytest.raises(Unauthorized):
            await passes(check, with_token(STREAM_PATH, token))
