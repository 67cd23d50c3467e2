"""Abbreviations are spoken in full where their place determines what they mean, and stay elsewhere."""

from realtime_tts.text.english.abbreviations import RULES
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
