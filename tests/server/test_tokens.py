"""A token is good for one session within its lifetime, and is kept as a hash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.clock import VirtualClock
from realtime_tts.errors import QuotaExceeded, Unauthorized
from realtime_tts.server.api_keys import ApiKey
from realtime_tts.server.tokens import TokenStore

KEY = ApiKey("one", b"digest")


def test_a_token_is_good_for_one_use_of_its_key() -> None:
    tokens = TokenStore(VirtualClock())
    token = tokens.issue(KEY)
    assert tokens.redeem(token) == KEY
    with pytest.raises(Unauthorized):
        tokens.redeem(token)
    assert len(tokens) == 0


def test_a_token_expires_and_is_then_removed() -> None:
    clock = VirtualClock()
    tokens = TokenStore(clock, life_s=60)
    early = tokens.issue(KEY)
    clock.advance(59)
    late = tokens.issue(KEY)
    clock.advance(1)
    with pytest.raises(Unauthorized):
        tokens.redeem(early)
    assert len(tokens) == 1
    assert tokens.redeem(late) == KEY


def test_a_key_has_a_limited_number_of_unused_tokens_and_other_keys_are_not_affected() -> None:
    clock = VirtualClock()
    tokens = TokenStore(clock, life_s=60, max_tokens_per_key=3)
    first = [tokens.issue(KEY) for _ in range(3)]
    with pytest.raises(QuotaExceeded):
        tokens.issue(KEY)
    tokens.issue(ApiKey("other", b""))
    tokens.redeem(first[0])
    tokens.issue(KEY)
    clock.advance(60)
    for _ in range(3):
        tokens.issue(KEY)
    assert len(tokens) == 3


def test_tokens_are_kept_as_hashes() -> None:
    tokens = TokenStore(VirtualClock())
    token = tokens.issue(KEY)
    assert token not in repr(vars(tokens))
    assert token.encode() not in tokens._tokens


@given(st.text())
def test_a_made_up_token_is_refused(token: str) -> None:
    tokens = TokenStore(VirtualClock())
    tokens.issue(KEY)
    with pytest.raises(Unauthorized):
        tokens.redeem(token)
    assert len(tokens) == 1
