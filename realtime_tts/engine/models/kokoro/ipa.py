"""Conversion of written IPA to Kokoro's phonemes, which have one letter for "aɪ", "tʃ" or "oʊ"."""

import re
import unicodedata

# Equivalent characters: as typed without an IPA keyboard, and marks that join or separate letters.
_EQUIVALENT = str.maketrans(
    {"'": "ˈ", "’": "ˈ", ":": "ː", "g": "ɡ", "r": "ɹ"} | dict.fromkeys(".‿\u0361\u035c\u032f", "")
)

# Kokoro's English is transcribed in American sounds, with its own letter for each diphthong and affricate.
_KOKORO = {
    "aɪ": "I",
    "eɪ": "A",
    "oʊ": "O",
    "əʊ": "O",
    "aʊ": "W",
    "ɔɪ": "Y",
    "tʃ": "ʧ",
    "dʒ": "ʤ",
    "ɜːɹ": "ɜɹ",
    "ɜː": "ɜɹ",
    "ɝ": "ɜɹ",
    "ɚ": "əɹ",
    "əl\u0329": "ᵊl",
    "l\u0329": "ᵊl",
    "m\u0329": "ᵊm",
    "n\u0329": "ᵊn",
    "\u0329": "",
    "e": "ɛ",
    "ɫ": "l",
    "ɱ": "m",
    "ʍ": "w",
    "ɾ": "T",
    # Its long vowels are separate letters: "sˈit" is seat, "sˈɪt" is sit.
    "ː": "",
    "ˑ": "",
}
# The British voices are transcribed with lengths, without r-coloured vowels, and with their own "oʊ".
_BRITISH = {symbol: _KOKORO[symbol] for symbol in ("aɪ", "eɪ", "aʊ", "ɔɪ", "tʃ", "dʒ", "ɫ", "ɱ", "ʍ", "ˑ")} | {
    "əʊ": "Q",
    "oʊ": "Q",
    "ɝ": "ɜː",
    "ɚ": "ə",
    **{f"{letter}\u0329": f"ᵊ{letter}" for letter in "mn"},
    "əl\u0329": "ᵊl",
    "l\u0329": "ᵊl",
    "\u0329": "",
    "e": "ɛ",
    "ɾ": "t",
}


def _pattern(symbols: dict[str, str]) -> re.Pattern[str]:
    return re.compile("|".join(sorted(symbols, key=len, reverse=True)))


_WRITTEN = _pattern(_KOKORO)
_WRITTEN_BRITISH = _pattern(_BRITISH)

_SOUNDS = "AIOQSTWYabcdfhijklmnopqstuvwxyzæçðøŋœɐɑɒɔɕɖəɛɜɟɡɣɤɥɨɪɯɰɲɳɴɸɹɻɽʁʂʃʈʊʋʌʎʒʔʝʣʤʥʦʧʨʰʲˈˌ\u0303βθχᵊᵝᵻꭧ "
"""The symbols of the vocabulary that are a sound, a stress or a space; the others are punctuation and intonation."""

IPA_SYMBOLS = frozenset(_SOUNDS) | {chr(sign) for sign in _EQUIVALENT} | set("".join(_KOKORO)) | set("ãẽĩõũ")


def kokoro_symbols(ipa: str) -> str:
    """The same sounds in Kokoro's symbols.  Characters that are not in IPA_SYMBOLS are kept."""
    return _WRITTEN.sub(lambda match: _KOKORO[match[0]], _decomposed(ipa)).strip()


def british_symbols(ipa: str) -> str:
    """The same for British voices: lengths and vowels stay as they are written."""
    return _WRITTEN_BRITISH.sub(lambda match: _BRITISH[match[0]], _decomposed(ipa)).strip()


def _decomposed(ipa: str) -> str:
    return unicodedata.normalize("NFD", ipa).replace("c\u0327", "ç").translate(_EQUIVALENT)
