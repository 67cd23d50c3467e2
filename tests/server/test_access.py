"""Which requests are let in, as whom, and what pages of other origins may see: asked without a server."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from realtime_tts.clock import VirtualClock
from realtime_tts.errors import QuotaExceeded
from realtime_tts.frontends.native.messages import PROTOCOL, STREAM_PATH
from realtime_tts.server.access import (
    HEALTH_PATHS,
    METRICS_PATH,
    Access,
    AccessRules,
    Caller,
    Refused,
    over_quota,
    problem,
)
from realtime_tts.server.auth import TOKEN_PROTOCOL, KeyStore, TokenStore, generate_key, key_line

KEY = generate_key()
KEYS = KeyStore.from_lines([key_line("one", KEY)])
APP = "https://app.example"
RULES = AccessRules(keys=KEYS, allowed_origins=frozenset({APP}), public_hosts=frozenset({"voice.example"}))
BEARER = {"Authorization": f"Bearer {KEY}"}
LOCAL = {"Host": "localhost:8000"}


def access(rules: AccessRules = RULES) -> tuple[Access, TokenStore]:
    clock = VirtualClock()
    tokens = TokenStore(clock)
    return Access(rules, tokens, clock), tokens


def ask(method: str, path: str, **headers: str) -> web.Request:
    return make_mocked_request(method, path, headers={**LOCAL, **headers})


def refusal(request: web.Request, rules: AccessRules = RULES) -> Refused:
    with pytest.raises(Refused) as refused:
        access(rules)[0].admit(request)
    return refused.value


def admitted(request: web.Request, rules: AccessRules = RULES) -> Caller:
    caller = access(rules)[0].admit(request)
    assert caller is not None
    return caller


@pytest.mark.parametrize(
    "path", [STREAM_PATH, "/v1/audio/voices", "/v1/demo", "/v1/audio/speech", "/v1/nothing", METRICS_PATH]
)
def test_whatever_speaks_or_tells_needs_a_key(path: str) -> None:
    refused = refusal(ask("GET", path))
    assert (refused.status, refused.wire_code, refused.headers["WWW-Authenticate"]) == (401, "unauthorized", "Bearer")
    assert admitted(ask("GET", path, **BEARER)).name == "one"
    assert admitted(ask("GET", path), AccessRules()).key is None


@pytest.mark.parametrize("path", ["/", "/static/player.js", *HEALTH_PATHS])
def test_the_demo_page_and_health_need_none(path: str) -> None:
    assert access()[0].admit(ask("GET", path)) is None


def test_sessions_of_one_key_share_its_quota() -> None:
    door = access()[0]
    callers = [door.admit(ask("GET", STREAM_PATH, **BEARER)) for _ in range(2)]
    assert callers[0] is not None
    assert callers[1] is not None
    assert callers[0].quota is callers[1].quota


@pytest.mark.parametrize("way", ["query", "subprotocol"])
def test_a_token_opens_one_session_and_nothing_else(way: str) -> None:
    door, tokens = access()

    def with_token(path: str, token: str) -> web.Request:
        if way == "query":
            return ask("GET", f"{path}?token={token}")
        return ask("GET", path, **{"Sec-WebSocket-Protocol": f"{PROTOCOL}, {TOKEN_PROTOCOL}{token}"})

    caller = door.admit(ask("GET", STREAM_PATH, **BEARER))
    assert caller is not None
    assert caller.key is not None
    token = tokens.issue(caller.key)
    for path in ("/v1/audio/speech", "/v1/realtime/tokens", METRICS_PATH):
        with pytest.raises(Refused):
            door.admit(with_token(path, token))
    by_token = door.admit(with_token(STREAM_PATH, token))
    assert by_token is not None
    assert by_token.quota is caller.quota
    with pytest.raises(Refused) as refused:
        door.admit(with_token(STREAM_PATH, token))
    assert refused.value.status == 401


@pytest.mark.parametrize(
    ("method", "path", "checked"),
    [
        ("GET", STREAM_PATH, True),
        ("POST", "/v1/audio/speech", True),
        ("DELETE", "/v1/audio/voices/me", True),
        ("PUT", "/", True),
        ("GET", "/v1/audio/voices", False),
        ("HEAD", "/", False),
        ("POST", "/healthz", False),
    ],
)
def test_a_foreign_page_can_neither_connect_nor_change_anything(method: str, path: str, checked: bool) -> None:
    foreign = ask(method, path, Origin="https://evil.example", **BEARER)
    if checked:
        refused = refusal(foreign)
        assert (refused.status, refused.wire_code) == (403, "origin_not_allowed")
    else:
        access()[0].admit(foreign)
    for origin in (APP, "http://localhost:8000"):
        access()[0].admit(ask(method, path, Origin=origin, **BEARER))


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/", STREAM_PATH, "/v1/audio/voices", METRICS_PATH, "/static/x"])
def test_a_rebound_name_sees_nothing(method: str, path: str) -> None:
    for host in ("evil.example:8000", "", "localhost.evil.example"):
        refused = refusal(ask(method, path, Host=host, Origin=f"http://{host}", **BEARER))
        assert (refused.status, refused.wire_code) == (403, "host_not_allowed")
    for host in ("localhost", "127.0.0.1:1", "[::1]:80", "voice.example", "VOICE.example:443"):
        access()[0].admit(ask(method, path, Host=host, **BEARER))


def test_probes_call_by_any_name_and_so_may_all_where_it_is_waived() -> None:
    for path in HEALTH_PATHS:
        access()[0].admit(ask("GET", path, Host="10.1.2.3:8000"))
    waived = AccessRules(check_host=False)
    assert admitted(ask("GET", STREAM_PATH, Host="anything.example", Origin="http://anything.example"), waived)


def test_two_host_headers_are_one_too_many() -> None:
    from multidict import CIMultiDict

    headers = CIMultiDict([("Host", "localhost"), ("Host", "evil.example")])
    refused = refusal(make_mocked_request("GET", "/", headers=headers))
    assert refused.status == 400


def test_only_listed_origins_are_told_that_they_may_read_and_only_of_the_http_api() -> None:
    door = access()[0]
    assert door.cors_headers(ask("GET", "/v1/models", Origin=APP))["Access-Control-Allow-Origin"] == APP
    for path, origin in (("/v1/models", "https://evil.example"), (STREAM_PATH, APP), ("/", APP), (METRICS_PATH, APP)):
        assert not door.cors_headers(ask("GET", path, Origin=origin))
    assert not door.cors_headers(ask("GET", "/v1/models"))


def test_a_preflight_is_answered_before_a_key_is_asked_for() -> None:
    door = access()[0]
    asks = {"Access-Control-Request-Method": "POST"}
    answer = door.preflight(ask("OPTIONS", "/v1/audio/speech", Origin=APP, **asks))
    assert answer is not None
    assert answer.status == 204
    assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
    assert door.admit(ask("OPTIONS", "/v1/audio/speech", Origin=APP, **asks)) is None
    for request in (
        ask("OPTIONS", "/v1/audio/speech", Origin="https://evil.example", **asks),
        ask("OPTIONS", STREAM_PATH, Origin=APP, **asks),
        ask("OPTIONS", "/v1/audio/speech", Origin=APP),
        ask("POST", "/v1/audio/speech", Origin=APP, **asks),
    ):
        assert door.preflight(request) is None


@pytest.mark.parametrize("origin", ["*", "https://app.example/", "app.example", "https://a/b/"])
def test_an_origin_that_could_never_match_or_always_would_is_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="origin"):
        AccessRules(allowed_origins=frozenset({origin}))


@pytest.mark.parametrize("host", ["https://voice.example", "Voice.example"])
def test_a_host_that_could_never_match_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="host"):
        AccessRules(public_hosts=frozenset({host}))


@pytest.mark.parametrize(("wait_s", "told"), [(None, "1"), (0.01, "1"), (2.0, "2"), (2.4, "3"), (59.9, "60")])
def test_a_quota_tells_when_to_come_again_and_never_too_early(wait_s: float | None, told: str) -> None:
    refused = over_quota(QuotaExceeded("no", retry_after_s=wait_s))
    response = problem(refused)
    assert (response.status, response.headers["Retry-After"]) == (429, told)
