"""Only the server's own names are accepted as Host."""

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from realtime_tts.errors import HostNotAllowed, InvalidRequest
from realtime_tts.frontends.native.messages import STREAM_PATH
from realtime_tts.server.access import HEALTH_PATHS, METRICS_PATH, AccessRules
from realtime_tts.server.middleware.host import host_middleware, host_of, is_host_allowed
from tests.server.middleware.requests import ask, passes

CHECK = host_middleware(AccessRules(public_hosts=frozenset({"voice.example"})))


async def test_a_rebound_name_reaches_nothing() -> None:
    for method in ("GET", "POST"):
        for path in ("/", STREAM_PATH, "/v1/audio/voices", METRICS_PATH, "/static/x"):
            for host in ("evil.example:8000", "", "localhost.evil.example"):
                with pytest.raises(HostNotAllowed, match=r"server\.hosts"):
                    await passes(CHECK, ask(method, path, Host=host))
            for host in ("localhost", "127.0.0.1:1", "[::1]:80", "voice.example", "VOICE.example:443"):
                assert await passes(CHECK, ask(method, path, Host=host)), (path, host)


async def test_probes_may_use_any_name_and_so_may_all_requests_without_the_check() -> None:
    for path in HEALTH_PATHS:
        assert await passes(CHECK, ask("GET", path, Host="10.1.2.3:8000"))
    unchecked = host_middleware(AccessRules(check_host=False))
    assert await passes(unchecked, ask("GET", STREAM_PATH, Host="anything.example"))


async def test_two_host_headers_are_refused() -> None:
    headers = CIMultiDict([("Host", "localhost"), ("Host", "evil.example")])
    with pytest.raises(InvalidRequest):
        await passes(CHECK, make_mocked_request("GET", "/", headers=headers))


def test_local_and_configured_names_are_allowed_and_similar_ones_are_not() -> None:
    names = frozenset({"me"})
    for host in ("localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000", "LocalHost.", "me:1"):
        assert is_host_allowed(host, names), host
    for host in (
        *("", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example:127.0.0.1"),
        *("evil.example@localhost.evil.example", "evil.example@localhost", "localhost/", "localhost#.evil.example"),
        *("localhost\\.evil.example", "[::1", "::1", "127.0.0.1evil", "xlocalhost", "0.0.0.0", "169.254.169.254"),
    ):
        assert not is_host_allowed(host, names), host


@given(st.text())
def test_any_header_is_a_host_or_none(header: str) -> None:
    host_of(header)
    is_host_allowed(header, frozenset())
