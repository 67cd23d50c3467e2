"""From the IPA that people write to the symbols that Kokoro was taught: it has one letter for "aɪ", "tʃ" or "oʊ"."""

import re
import unicodedata

# Other signs for the same: as typed without an IPA keyboard, and the marks that join or part letters.
_SAME = str.maketrans({"'": "ˈ", "’": "ˈ", ":": "ː", "g": "ɡ", "r": "ɹ"} | dict.fromkeys(".‿\u0361\u035c\u032f", ""))

# Kokoro's English was transcribed in American sounds, with a letter of its own for each diphthong and affricate.
_TAUGHT = {
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
    # Its long vowels are letters of their own: "sˈit" is seat, "sˈɪt" sit.
    "ː": "",
    "ˑ": "",
}
_WRITTEN = re.compile("|".join(sorted(_TAUGHT, key=len, reverse=True)))

_SOUNDS = "AIOQSTWYabcdfhijklmnopqstuvwxyzæçðøŋœɐɑɒɔɕɖəɛɜɟɡɣɤɥɨɪɯɰɲɳɴɸɹɻɽʁʂʃʈʊʋʌʎʒʔʝʣʤʥʦʧʨʰʲˈˌ\u0303βθχᵊᵝᵻꭧ "
"""What of the vocabulary is a sound or a stress, or parts two words.  The rest is punctuation and intonation."""

IPA_SYMBOLS = frozenset(_SOUNDS) | {chr(sign) for sign in _SAME} | set("".join(_TAUGHT)) | set("ãẽĩõũ")


def taught_symbols(ipa: str) -> str:
    """The same sounds in Kokoro's symbols.  What is not in IPA_SYMBOLS stays as it is."""
    parted = unicodedata.normalize("NFD", ipa).replace("c\u0327", "ç")
    return _WRITTEN.sub(lambda match: _TAUGHT[match[0]], parted.translate(_SAME)).strip()
