"""Only known keys are accepted, and neither errors nor representations reveal a key."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.errors import InvalidKeys, Unauthorized
from realtime_tts.server.api_keys import KEY_PREFIX, KeyStore, digest_of, generate_key, key_line
from realtime_tts.server.rate_limit import QuotaLimits

NAMES = st.text(string.ascii_letters + string.digits + "_.-", min_size=1, max_size=64)
ONE, TWO = generate_key(), generate_key()
KEYS = KeyStore.from_lines([key_line("one", ONE), key_line("two", TWO) + ":sessions=3,chars_per_minute=900"])
KEY = KEYS.authenticate(f"Bearer {ONE}")


def test_a_new_key_is_long_and_never_the_same() -> None:
    keys = {generate_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(key.startswith(KEY_PREFIX) and len(key) >= 48 for key in keys)


@settings(max_examples=25)
@given(st.dictionaries(NAMES, st.text(min_size=1), min_size=1, max_size=5))
def test_each_key_of_a_file_is_found_under_its_own_name(keys: dict[str, str]) -> None:
    by_secret = {secret: name for name, secret in keys.items()}
    store = KeyStore.from_lines(key_line(name, secret) for secret, name in by_secret.items())
    for secret, name in by_secret.items():
        found = store.find(secret)
        assert found is not None
        assert found.name == name


@given(st.text())
def test_any_other_header_is_refused(header: str) -> None:
    with pytest.raises(Unauthorized):
        KEYS.authenticate(header)


def test_a_header_that_resembles_a_key_is_refused() -> None:
    for header in (
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Basic {ONE}",
        ONE,
        f"Bearer {ONE[:-1]}",
        f"Bearer {ONE}x",
        f"Bearer {ONE.swapcase()}",
        f"Bearer {digest_of(ONE).hex()}",
        f"Bearer {ONE} {ONE}",
        f"Bearer {ONE},{TWO}",
        f"Bearer \udcff{ONE}",
    ):
        with pytest.raises(Unauthorized) as refused:
            KEYS.authenticate(header)
        assert ONE[5:] not in str(refused.value), header


def test_limits_of_a_key_are_read_and_the_scheme_s_case_does_not_matter() -> None:
    assert KEYS.authenticate(f"bearer {TWO}").limits == QuotaLimits(3, 900)
    assert KEYS.authenticate(f"BEARER  {ONE}").limits == QuotaLimits()


def test_a_key_shows_neither_itself_nor_its_hash() -> None:
    assert ONE not in repr(KEY)
    assert digest_of(ONE).hex() not in repr(KEY)
    assert repr(digest_of(ONE)) not in repr(KEY)


def test_comments_and_empty_lines_are_skipped() -> None:
    assert len(KeyStore.from_lines(["# ours", "", f"  {key_line('one', ONE)}  ", "\t"])) == 1


def test_a_bad_line_is_named_by_its_number_and_never_shown() -> None:
    digest = digest_of(ONE).hex()
    for line in (
        ONE,
        f"one:{ONE}",
        f"one:{digest[:-1]}",
        f":{digest}",
        f"o ne:{digest}",
        f"one:{digest}:sessions=0",
        f"one:{digest}:sessions=-1",
        f"one:{digest}:sessions=1.5",
        f"one:{digest}:sessions",
        f"one:{digest}:speed=2",
        f"one:{digest}:sessions=99999999999",
    ):
        with pytest.raises(InvalidKeys, match="line 2") as refused:
            KeyStore.from_lines(["# first", line])
        assert ONE not in str(refused.value), line
        assert digest not in str(refused.value), line


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
