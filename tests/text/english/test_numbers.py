"""Numbers are spoken as an American would, and long ones without a meaning digit by digit."""

from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.text.english.numbers import (
    DECADE_RULES,
    ROMAN_RULES,
    RULES,
    cardinal,
    digits,
    number,
    ordinal,
    year,
)
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import apply_rules


def test_fractions_and_years_are_spoken() -> None:
    for raw, words in [
        ("3/4", "three quarters"),
        ("1/2", "one half"),
        ("3/2", "three halves"),
        ("11/29", "eleven over twenty nine"),
        ("year 1066", "year ten sixty six"),
        ("50/50", "fifty fifty"),
    ]:
        assert " ".join(apply_rules(AlignedText.of(raw), RULES).text.split()) == words, raw


def test_decades_are_spoken() -> None:
    for raw, words in [
        ("2000s", "two thousands"),
        ("the 80s", "the eighties"),
        ("her 20s, mid-80s, late 50s", "her twenties, mid eighties, late fifties"),
        ("80s music, a 90s kid", "eighties music, a nineties kid"),
        ("1960s-80s", "nineteen sixties to eighties"),
        ("the 1920s–1930s", "the nineteen twenties to nineteen thirties"),
        ("in her 20s or 30s", "in her twenties or thirties"),
        ("for 20s", "for 20s"),
        ("a timer of 30s", "a timer of 30s"),
    ]:
        assert apply_rules(AlignedText.of(raw), DECADE_RULES).text == words, raw


def test_roman_numerals_are_spoken_after_a_name_that_has_one() -> None:
    for raw, words in [
        ("Louis XIV", "Louis the fourteenth"),
        ("Henry I think", "Henry I think"),
        ("Part I like", "Part I like"),
        ("World War I", "World War one"),
    ]:
        assert apply_rules(AlignedText.of(raw), ROMAN_RULES).text == words, raw


def test_whole_numbers_have_no_and_and_no_hyphen() -> None:
    assert cardinal("121") == "one hundred twenty one"
    assert cardinal("1,001") == "one thousand one"
    assert cardinal("0") == "zero"
    assert cardinal("999999999999999").startswith("nine hundred ninety nine trillion nine hundred ninety nine billion")


def test_leading_zeros_and_very_long_numbers_are_read_digit_by_digit() -> None:
    assert cardinal("007") == "zero zero seven"
    assert cardinal("1" * 16) == " ".join(["one"] * 16)
    assert digits("4-0 8") == "four zero eight"


def test_years_ordinals_and_decimals_are_spoken() -> None:
    assert [year(text) for text in ("1905", "1900", "1999", "2005", "2026", "64")] == [
        "nineteen oh five",
        "nineteen hundred",
        "nineteen ninety nine",
        "two thousand five",
        "twenty twenty six",
        "sixty four",
    ]
    assert [ordinal(value) for value in (0, 1, 12, 20, 112, 1000)] == [
        "zeroth",
        "first",
        "twelfth",
        "twentieth",
        "one hundred twelfth",
        "one thousandth",
    ]
    assert number(".5") == "zero point five"


@given(st.integers(0, 10**15 - 1))
def test_every_whole_number_is_its_parts(value: int) -> None:
    """An independent reading of the words gives the number."""
    small = {cardinal(str(each)): each for each in (*range(20), *range(20, 100, 10))}
    scales = {"thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
    total = group = 0
    for word in cardinal(str(value)).split():
        if word in scales:
            total, group = total + group * scales[word], 0
        elif word == "hundred":
            group *= 100
        else:
            group += small[word]
    assert total + group == value


@given(st.from_regex(r"[0-9]{1,60}(\.[0-9]{1,60})?", fullmatch=True))
def test_every_number_is_words(text: str) -> None:
    assert not any(character.isdigit() for character in number(text))
