"""Abbreviations are spoken in full where their place determines what they mean, and stay elsewhere."""

from realtime_tts.text.english.abbreviations import LETTER_RULES, RULES
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import apply_rules


def test_abbreviations_are_spoken_in_full() -> None:
    for raw, words in [
        ("Mt. Fuji", "Mount Fuji"),
        ("min. 5", "minimum 5"),
        ("in 5 min. or so", "in 5 min. or so"),
        ("w/o milk, etc", "without milk, etc."),
        ("AT&T", "A T and T"),
        ("let US$ be", "let US$ be"),
        ("p. 7", "page 7"),
    ]:
        assert apply_rules(AlignedText.of(raw), RULES).text == words, raw


def test_single_letters_have_names() -> None:
    for raw, words in [
        ("A W S", "eigh W S"),
        ("the letter A.", "the letter eigh."),
        ("A dog", "A dog"),
    ]:
        assert apply_rules(AlignedText.of(raw), LETTER_RULES).text == words, raw
