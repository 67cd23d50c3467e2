"""Whatever rules do to a text, each of its characters still knows where it came from, in order."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.models.kokoro.normalise import spoken
from realtime_tts.engine.models.kokoro.traced import Traced, rule, spread

WRITTEN = st.text(
    alphabet=st.one_of(st.characters(), st.sampled_from("aA1 .,:/-_@#$%'\"()+=~½é😀\n°kmv—")), max_size=120
)


def sources(text: str) -> list[tuple[str, str]]:
    """Each word that is said, and the word as written that it stands for."""
    said = spoken(Traced.of(text))
    written = [match.span() for match in re.finditer(r"\S+", text)]
    pairs = []
    for match in re.finditer(r"\S+", said.text):
        origin = said.origins[match.start()]
        start, end = next(span for span in written if span[1] > origin)
        pairs.append((match[0], text[start:end]))
    return pairs


@given(WRITTEN)
def test_origins_stay_in_the_text_and_in_order(text: str) -> None:
    said = spoken(Traced.of(text))
    assert len(said.origins) == len(said.text)
    assert list(said.origins) == sorted(said.origins)
    assert all(0 <= origin < len(text) for origin in said.origins)


@given(
    st.lists(st.sampled_from(["plain", "words", "don't", "café", "“quoted”"]), max_size=12),
    st.text(" \n\t", max_size=3),
)
def test_what_no_rule_changes_stands_for_itself(words: list[str], gap: str) -> None:
    text = f"{gap} ".join(words)
    assert [written for _, written in sources(text)] == words


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("It is $5.20 now", "It=It is=is five=$5.20 dollars=$5.20 and=$5.20 twenty=$5.20 cents=$5.20 now=now"),
        ("on Nov 29th.", "on=on November=Nov twenty=29th. ninth.=29th."),
        ("Henry VIII ran", "Henry=Henry the=VIII eighth=VIII ran=ran"),
        ("😀 e.g. this", "for=e.g. example=e.g. this=this"),
        ("3 GB of it", "three=3 gigabytes=GB of=of it=it"),
        ("see example.com.", "see=see example=example.com. dot=example.com. com.=example.com."),
        ("2 + 2", "two=2 plus=+ two=2"),
        ("wait — no", "wait=wait —=— no=no"),
    ],
)
def test_words_stand_for_what_they_replace(text: str, pairs: str) -> None:
    assert sources(text) == [tuple(pair.split("=")) for pair in pairs.split(" ")]


@given(st.text("ab ", max_size=30), st.text("xyz", max_size=3))
def test_a_rule_rewrites_as_a_substitution_would(text: str, said: str) -> None:
    for pattern in ("a", "a+b", "(?=b)", "b?", " "):
        assert Traced.of(text).apply([rule(pattern, said)]).text == re.sub(pattern, said, text)


def test_what_is_put_in_has_its_neighbours_origin() -> None:
    assert list(Traced.of("ab").apply([rule("(?=b)", "---")]).origins) == [0, 0, 0, 0, 1]
    assert list(Traced.of("ab").apply([rule("^", "-")]).origins) == [0, 0, 1]
    assert list(Traced.of("").apply([rule("^", "-")]).origins) == [0]


def test_what_a_rule_keeps_at_both_ends_keeps_its_origins() -> None:
    assert list(Traced.of("x a b").apply([rule("x a b", "x ccc b")]).origins) == [0, 1, 2, 2, 2, 3, 4]


@given(st.text(" a", max_size=12))
def test_strip_is_that_of_text(text: str) -> None:
    stripped = Traced.of(text).strip()
    assert stripped.text == text.strip()
    assert "".join(text[origin] for origin in stripped.origins) == stripped.text


def test_dropped_characters_take_their_origins_along() -> None:
    assert Traced.of("a-b-").only({"a", "b"}) == Traced("ab", [0, 2])


def test_spread_is_even() -> None:
    assert spread([4, 5], 4) == [4, 4, 5, 5]
    assert spread([4, 5, 6], 2) == [4, 5]
    assert spread([], 0) == []
