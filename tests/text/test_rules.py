"""A rule rewrites a text as a substitution does, and each character keeps where it came from."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import any_of, apply_rules, rule


def sources(text: str, pattern: str, replacement: str) -> list[int]:
    return apply_rules(AlignedText.of(text), [rule(pattern, replacement)]).sources


@given(st.text("ab ", max_size=30), st.text("xyz", max_size=3))
@settings(max_examples=60)
def test_a_rule_rewrites_as_a_substitution_does(text: str, replacement: str) -> None:
    for pattern in ("a", "a+b", "(?=b)", "b?", " "):
        assert apply_rules(AlignedText.of(text), [rule(pattern, replacement)]).text == re.sub(
            pattern, replacement, text
        )


def test_rules_apply_one_after_the_other() -> None:
    aligned = apply_rules(AlignedText.of("ab"), [rule("a", "bb"), rule("b", lambda match: match[0].upper())])
    assert (aligned.text, aligned.sources) == ("BBB", [0, 0, 1])


def test_a_text_without_a_match_is_returned_as_it_is() -> None:
    aligned = AlignedText.of("abc")
    assert apply_rules(aligned, [rule("x", "y"), rule("b", "b")]) is aligned


def test_an_insertion_stands_for_the_character_before_it() -> None:
    assert sources("ab", "(?=b)", "---") == [0, 0, 0, 0, 1]
    assert sources("ab", "^", "-") == [0, 0, 1]
    assert sources("", "^", "-") == [0]


def test_what_a_rule_keeps_at_both_ends_keeps_its_sources() -> None:
    assert sources("x a b", "x a b", "x ccc b") == [0, 1, 2, 2, 2, 3, 4]


def test_dropped_characters_are_in_no_span() -> None:
    assert sources("a-b-", "-", "") == [0, 2]


def test_any_of_prefers_the_longest_word_and_takes_each_literally() -> None:
    assert re.findall(any_of(["C", "C++", "."]), "C++ C x.") == ["C++", "C", "."]
