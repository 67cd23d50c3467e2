"""Properties of characters: words, speech, surrogates, and where one visible character ends."""

import re
import unicodedata

# Scripts that put no white space between words: Thai to Khmer, kana, Han, Hangul (whose particles follow at once).
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3130-\u318f"
    "\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
MAX_PRINTED_CHARS = 200
LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
SURROGATE = re.compile("[\ud800-\udfff]")

# Read aloud by every model even when alone.  "+", "=", "#", "*" and "_" mostly stand alone as rules and mark-up.
_SPOKEN_SYMBOLS = frozenset("%‰&°")


def is_speakable(text: str) -> bool:
    """Whether there is anything to pronounce: a letter, a number, a currency sign, or one of % ‰ & °."""
    for char in text:
        category = unicodedata.category(char)
        if category[0] in "LN" or category == "Sc" or char in _SPOKEN_SYMBOLS:
            return True
    return False


def is_word(char: str) -> bool:
    """Whether the character makes one word with a neighbour of its kind."""
    return char.isalnum() and not UNSPACED.match(char)


def is_joined(before: str, after: str) -> bool:
    """Whether both belong to one character as the reader sees it (a part of the rules of UAX 29)."""
    return (
        unicodedata.category(after)[0] == "M"  # combining marks, variation selectors
        or "\u200d" in (before, after)
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= after <= "\U000e007f"  # tags, in some flags
        or all("\U0001f1e6" <= char <= "\U0001f1ff" for char in (before, after))  # the other flags
        or is_surrogate_pair(before, after)
    )


def is_surrogate_pair(before: str, after: str) -> bool:
    """Whether two code units, received as two characters, make one."""
    return "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"


def without_surrogates(text: str) -> str:
    """Pairs of surrogates joined to one character, and lone ones replaced by U+FFFD."""
    if not SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def printable(text: str) -> str:
    """Text of at most `MAX_PRINTED_CHARS` characters that can be encoded, for error messages and logs."""
    return without_surrogates(text[:MAX_PRINTED_CHARS])
