"""Access rules that could never match, or would always match, are refused."""

import pytest

from realtime_tts.server.access import AccessRules


def test_an_origin_or_host_that_cannot_match_is_refused() -> None:
    for origin in ("*", "https://app.example/", "app.example", "https://a/b/"):
        with pytest.raises(ValueError, match="origin"):
            AccessRules(allowed_origins=frozenset({origin}))
    for host in ("https://voice.example", "Voice.example"):
        with pytest.raises(ValueError, match="host"):
            AccessRules(public_hosts=frozenset({host}))
