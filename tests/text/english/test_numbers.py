"""Numbers are said as an American would, and those too long to mean anything digit by digit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.models.kokoro.spoken_numbers import (
    EARLY_RULES,
    RULES,
    cardinal,
    digits,
    number,
    ordinal,
    year,
)
from realtime_tts.engine.models.kokoro.traced import Traced


def test_whole_numbers_have_no_and_and_no_hyphen() -> None:
    assert cardinal("121") == "one hundred twenty one"
    assert cardinal("1,001") == "one thousand one"


def test_leading_zeros_and_very_long_numbers_are_read_digit_by_digit() -> None:
    assert cardinal("007") == "zero zero seven"
    assert cardinal("1" * 16) == " ".join(["one"] * 16)
    assert digits("4-0 8") == "four zero eight"


def test_years_ordinals_and_decimals() -> None:
    assert year("1905") == "nineteen oh five"
    assert ordinal(112) == "one hundred twelfth"
    assert number(".5") == "zero point five"


@given(st.from_regex(r"[0-9]{1,60}(\.[0-9]{1,60})?", fullmatch=True))
def test_every_number_can_be_said(text: str) -> None:
    assert not any(character.isdigit() for character in number(text))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("3/4", "three quarters"),
        ("1/2", "one half"),
        ("3/2", "three halves"),
        ("11/29", "eleven over twenty nine"),
        ("year 1066", "year ten sixty six"),
        ("50/50", "fifty fifty"),
    ],
)
def test_fractions_and_years(raw: str, words: str) -> None:
    assert " ".join(Traced.of(raw).apply(RULES).text.split()) == words


@pytest.mark.parametrize(
    ("raw", "words"),
    [("2000s", "two thousands"), ("pin 0042", "pin zero zero four two"), ("a timer of 30s", "a timer of 30s")],
)
def test_decades_and_codes(raw: str, words: str) -> None:
    assert Traced.of(raw).apply(EARLY_RULES).text == words
