"""Access rules that could never match, or would always match, are refused."""

import pytest

from realtime_tts.server.access import AccessRules, request_id
from tests.server.middleware.requests import ask


def test_an_origin_or_host_that_cannot_match_is_refused() -> None:
    for origin in ("https://*", "*.example", "https://app.example/", "app.example", "https://a/b/"):
        with pytest.raises(ValueError, match="origin"):
            AccessRules(allowed_origins=frozenset({origin}))
    AccessRules(allowed_origins=frozenset({"*", "null", "https://app.example"}))
    for host in ("https://voice.example", "Voice.example"):
        with pytest.raises(ValueError, match="host"):
            AccessRules(public_hosts=frozenset({host}))


def test_a_request_keeps_its_id_and_no_other_has_it() -> None:
    request = ask("GET", "/v1/models")
    assert request_id(request) == request_id(request) != request_id(ask("GET", "/v1/models"))
