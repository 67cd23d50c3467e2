"""Keys and tokens let in whom they should, once; whatever else is presented is refused, and nothing tells a key."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.clock import VirtualClock
from realtime_tts.errors import InvalidKeys, QuotaExceeded, Unauthorized
from realtime_tts.server.auth import (
    KEY_PREFIX,
    ApiKey,
    KeyStore,
    TokenStore,
    digest_of,
    generate_key,
    host_of,
    is_host_allowed,
    is_loopback,
    is_origin_allowed,
    key_line,
)
from realtime_tts.server.rate_limit import QuotaLimits

NAMES = st.text(string.ascii_letters + string.digits + "_.-", min_size=1, max_size=64)
ONE, TWO = generate_key(), generate_key()
KEYS = KeyStore.from_lines([key_line("one", ONE), key_line("two", TWO) + ":sessions=3,chars_per_minute=900"])
KEY = KEYS.authenticate(f"Bearer {ONE}")


# -- Keys --------------------------------------------------------------------------------------------------------------


def test_a_new_key_is_long_and_never_the_same() -> None:
    keys = {generate_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(key.startswith(KEY_PREFIX) and len(key) >= 48 for key in keys)


@given(st.dictionaries(NAMES, st.text(min_size=1), min_size=1, max_size=5))
def test_each_key_of_a_file_lets_in_under_its_own_name(keys: dict[str, str]) -> None:
    by_secret = {secret: name for name, secret in keys.items()}
    store = KeyStore.from_lines(key_line(name, secret) for secret, name in by_secret.items())
    for secret, name in by_secret.items():
        found = store.find(secret)
        assert found is not None
        assert found.name == name


@given(st.text())
def test_nothing_else_lets_in_and_nothing_crashes(header: str) -> None:
    with pytest.raises(Unauthorized):
        KEYS.authenticate(header)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Basic {ONE}",
        ONE,
        f"Bearer {ONE[:-1]}",
        f"Bearer {ONE}x",
        f"Bearer {ONE.lower()}",
        f"Bearer {digest_of(ONE).hex()}",
        f"Bearer {ONE} {ONE}",
        f"Bearer {ONE},{TWO}",
        f"Bearer \udcff{ONE}",
    ],
)
def test_what_is_near_a_key_is_refused(header: str | None) -> None:
    with pytest.raises(Unauthorized) as refused:
        KEYS.authenticate(header)
    assert ONE[5:] not in str(refused.value)


def test_limits_of_a_key_are_read_and_the_scheme_s_case_does_not_matter() -> None:
    assert KEYS.authenticate(f"bearer {TWO}").limits == QuotaLimits(3, 900)
    assert KEYS.authenticate(f"BEARER  {ONE}").limits == QuotaLimits()


def test_a_key_shows_neither_itself_nor_its_hash() -> None:
    assert ONE not in repr(KEY)
    assert digest_of(ONE).hex() not in repr(KEY)
    assert repr(digest_of(ONE)) not in repr(KEY)


def test_comments_and_empty_lines_are_passed_over() -> None:
    assert len(KeyStore.from_lines(["# ours", "", f"  {key_line('one', ONE)}  ", "\t"])) == 1


@pytest.mark.parametrize(
    "line",
    [
        ONE,
        f"one:{ONE}",
        f"one:{digest_of(ONE).hex()[:-1]}",
        f":{digest_of(ONE).hex()}",
        f"o ne:{digest_of(ONE).hex()}",
        f"one:{digest_of(ONE).hex()}:sessions=0",
        f"one:{digest_of(ONE).hex()}:sessions=-1",
        f"one:{digest_of(ONE).hex()}:sessions=1.5",
        f"one:{digest_of(ONE).hex()}:sessions",
        f"one:{digest_of(ONE).hex()}:speed=2",
        f"one:{digest_of(ONE).hex()}:sessions=99999999999",
    ],
)
def test_a_bad_line_is_named_by_its_number_and_never_shown(line: str) -> None:
    with pytest.raises(InvalidKeys, match="line 2") as refused:
        KeyStore.from_lines(["# first", line])
    assert ONE not in str(refused.value)
    assert digest_of(ONE).hex() not in str(refused.value)


def test_an_empty_list_and_a_name_used_twice_are_refused() -> None:
    with pytest.raises(InvalidKeys, match="no key"):
        KeyStore.from_lines(["# none"])
    with pytest.raises(InvalidKeys, match="no key"):
        KeyStore.from_plain(" , ")
    with pytest.raises(InvalidKeys, match="name one"):
        KeyStore.from_lines([key_line("one", ONE), key_line("one", TWO)])
    with pytest.raises(InvalidKeys, match="name"):
        key_line("a:b", ONE)


def test_plain_keys_of_the_environment_are_hashed_as_they_are_read() -> None:
    store = KeyStore.from_plain(f"web={ONE}, {TWO}")
    assert store.authenticate(f"Bearer {ONE}").name == "web"
    assert store.authenticate(f"Bearer {TWO}").name == "key2"
    assert ONE not in repr(vars(store))
    with pytest.raises(InvalidKeys, match="key 1 is shorter") as refused:
        KeyStore.from_plain("web=hunter2")
    assert "hunter2" not in str(refused.value)


# -- Tokens ------------------------------------------------------------------------------------------------------------


def test_a_token_lets_in_once_as_the_key_that_asked_for_it() -> None:
    tokens = TokenStore(VirtualClock())
    token = tokens.issue(KEY)
    assert tokens.spend(token) == KEY
    with pytest.raises(Unauthorized):
        tokens.spend(token)
    assert len(tokens) == 0


def test_a_token_ends_with_its_time_and_takes_no_room_afterwards() -> None:
    clock = VirtualClock()
    tokens = TokenStore(clock, life_s=60)
    early = tokens.issue(KEY)
    clock.advance(59)
    late = tokens.issue(KEY)
    clock.advance(1)
    with pytest.raises(Unauthorized):
        tokens.spend(early)
    assert len(tokens) == 1
    assert tokens.spend(late) == KEY


def test_a_key_that_hoards_tokens_is_refused_and_another_is_not() -> None:
    clock = VirtualClock()
    tokens = TokenStore(clock, life_s=60, max_tokens_per_key=3)
    first = [tokens.issue(KEY) for _ in range(3)]
    with pytest.raises(QuotaExceeded):
        tokens.issue(KEY)
    tokens.issue(ApiKey("other", b""))
    tokens.spend(first[0])
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
def test_no_made_up_token_lets_in(token: str) -> None:
    tokens = TokenStore(VirtualClock())
    tokens.issue(KEY)
    with pytest.raises(Unauthorized):
        tokens.spend(token)
    assert len(tokens) == 1


# -- Host and Origin ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "localhost", "LOCALHOST", "127.8.9.1"])
def test_loopback_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.com", "", "localhost.evil.example", "127.1"])
def test_whatever_else_may_be_reached_from_elsewhere(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000", "LocalHost.", "me:1"])
def test_a_local_server_goes_by_its_local_and_its_configured_names(host: str) -> None:
    assert is_host_allowed(host, frozenset({"me"}))


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example:127.0.0.1",
        "evil.example@localhost.evil.example",
        "evil.example@localhost",
        "localhost/",
        "localhost#.evil.example",
        "localhost\\.evil.example",
        "[::1",
        "::1",
        "127.0.0.1evil",
        "xlocalhost",
        "0.0.0.0",
        "169.254.169.254",
    ],
)
def test_a_rebound_name_is_not_one_of_them(host: str) -> None:
    assert not is_host_allowed(host, frozenset({"me"}))


@given(st.text())
def test_no_header_crashes_the_rules(header: str) -> None:
    host_of(header)
    is_host_allowed(header, frozenset())
    is_origin_allowed(header, header, frozenset())


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("http://here:8000", True),
        ("https://here:8000", True),
        ("https://app.example", True),
        ("https://app.example:444", False),
        ("http://app.example", False),
        ("https://app.example.evil.example", False),
        ("https://xapp.example", False),
        ("http://here", False),
        ("null", False),
        ("", False),
        ("file://", False),
        ("file://here:8000", False),
        ("http://[", False),
    ],
)
def test_only_this_server_s_own_pages_and_listed_origins_pass(origin: str | None, allowed: bool) -> None:
    assert is_origin_allowed(origin, "here:8000", frozenset({"https://app.example"})) is allowed


def test_without_a_host_no_origin_is_the_same_host() -> None:
    assert not is_origin_allowed("http://", "", frozenset())
