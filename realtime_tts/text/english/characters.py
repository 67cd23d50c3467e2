"""Characters that the rules of the text normaliser expect: ASCII, and symbols that have a spoken name."""

import re
import unicodedata

from realtime_tts.text.rules import Rule, rule

_QUOTES = {"‘": "'", "’": "'", "ʼ": "'", "`": "'", "«": "“", "»": "”", "„": "“", "\u00ad": ""}
_LATIN = {"ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ß": "ss", "ł": "l", "Ł": "L", "đ": "d"}
_LATIN |= {"ð": "th", "þ": "th", "ı": "i", "‐": "-", "‑": "-", "‒": "-", "―": "—", "\u2126": "Ω", "\u2044": "/"}
_FRACTIONS = {"½": "1/2", "¼": "1/4", "¾": "3/4", "⅓": "1/3", "⅔": "2/3"}
# Kept as they are: later rules know their names.
_KNOWN = "€£$¥₹₽₩₺₫₱₴₦₪฿₿¢°º²³µμ½¼¾⅓⅔±×÷√∞≤≥≠≈→−§©—–…“”παβγδΔλθσωΩεΣ"


def _plain(match: re.Match[str]) -> str:
    """Accents are dropped (the dictionary has "naive" and "cafe"), and so are other scripts and pictures."""
    character = match[0]
    if character in _QUOTES:
        return _QUOTES[character]
    plain = "".join(part for part in unicodedata.normalize("NFKD", character) if part.isascii())
    if plain:
        return plain if plain.isprintable() else " "
    joins = unicodedata.category(character) in {"Mn", "Me", "Cf"}  # accents and joiners leave no gap
    return _LATIN.get(character, "" if joins else " ")


RULES: tuple[Rule, ...] = (
    rule(rf"[^ -~{_KNOWN}]|`", _plain),
    rule(r"(?<=\d)([½¼¾⅓⅔])", lambda match: f" {_FRACTIONS[match[1]]}"),
    rule(r"[½¼¾⅓⅔]", lambda match: _FRACTIONS[match[0]]),
)
