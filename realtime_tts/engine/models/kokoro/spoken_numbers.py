"""Numbers as they are said: 21 is "twenty one", 1999 a year, 007 its digits.  No digit survives."""

import re

from sanotts.nano_g2p import cardinal_words, ordinal_words, year_words

from realtime_tts.engine.models.kokoro.traced import Rule, rule

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_LARGEST_SAID_DIGITS = 15  # "nine hundred ninety nine trillion"; more are read one by one

# As written: 1,234,567 or 1234 or .5 or 3.14.  Commas first, else "1" of "1,234" would match alone.
NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,6}(?!\d)|\d{1,40})(?:\.\d{1,40})?|\.\d{1,40}"


def digits(text: str) -> str:
    """ "408" -> "four zero eight"."""
    return " ".join(DIGITS[int(digit)] for digit in text if digit.isdecimal())


def cardinal(text: str) -> str:
    """ "1,234" -> "one thousand two hundred thirty four"; leading zeros and very long numbers digit by digit."""
    text = text.replace(",", "")
    if len(text) > _LARGEST_SAID_DIGITS or (len(text) > 1 and text[0] == "0"):
        return digits(text)
    return _plain(cardinal_words(int(text)))


def ordinal(value: int) -> str:
    return _plain(ordinal_words(value))


def year(text: str) -> str:
    """ "1999" -> "nineteen ninety nine", "2005" -> "two thousand five"."""
    return _plain(year_words(int(text)))


def number(text: str) -> str:
    """ "3.14" -> "three point one four", ".5" -> "zero point five"."""
    whole, _, fraction = text.partition(".")
    words = cardinal(whole) if whole else DIGITS[0]
    return f"{words} point {digits(fraction)}" if fraction else words


def is_one(text: str) -> bool:
    return text == "1"


def _plain(words: str) -> str:
    # sanotts says "one hundred and one" and "twenty-one"; the voice was taught "one hundred one" and "twenty one".
    return re.sub(r",| and\b", "", words).replace("-", " ")


def _fraction(match: re.Match[str]) -> str:
    top, bottom = match[2], match[3]
    if (top, bottom) in {("24", "7"), ("9", "11"), ("50", "50")}:
        words = f"{cardinal(top)} {cardinal(bottom)}"
    elif bottom in {"10", "100"}:
        words = f"{cardinal(top)} out of {cardinal(bottom)}"
    elif bottom in _PARTS and int(top) < 100:
        part = _PARTS[bottom]
        words = f"{cardinal(top)} {part}{'' if is_one(top) else 's'}".replace("halfs", "halves")
    else:
        words = f"{cardinal(top)} over {cardinal(bottom)}"
    if match[1]:
        return f"{cardinal(match[1])} and {words.replace('one half', 'a half').replace('one quarter', 'a quarter')}"
    return words


_PARTS = {"2": "half", "3": "third", "4": "quarter"} | {
    str(value): ordinal(value) for value in (5, 6, 7, 8, 9, 12, 16, 20, 32, 64)
}


def _decade(match: re.Match[str]) -> str:
    tens = {"1": "teens", "2": "twenties", "3": "thirties", "4": "forties", "5": "fifties", "6": "sixties"}
    tens |= {"7": "seventies", "8": "eighties", "9": "nineties"}
    if match[2] == "0":
        return f"{year(match[1] + '00')}s" if match[1] else match[0]
    century = f"{cardinal(match[1])} " if match[1] else ""
    return century + tens[match[2]]


# Before a digit is parted from the letters after it.
EARLY_RULES: tuple[Rule, ...] = (
    rule(r"(?<![\w.,])(1[1-9]|20)(\d)0'?s\b", _decade),
    # '80s and the 80s, but a timer of 30s.
    rule(r"(?<!\w)'()([2-9])0s\b", _decade),
    rule(r"(?<=\bthe )()([2-9])0s\b", _decade),
    # What a listener may have to write down is read digit by digit.
    rule(
        r"\b((?:code|pin|zip|extension|account|order|flight|confirmation|ticket|case|tracking)"
        r"(?: number| no\.| id| is|:)? )#?(\d{3,20})(?![\w%]|[.,/-]\d)",
        lambda match: match[1] + digits(match[2]),
        re.IGNORECASE,
    ),
    rule(r"#(\d{4,20})(?!\w)", lambda match: f"number {digits(match[1])}"),
)

RULES: tuple[Rule, ...] = (
    rule(r"(?<![\w./])(?:(\d{1,4}) )?(\d{1,4})/(\d{1,4})(?![\w/])", _fraction),
    # A year said as such: after a word that announces one, or from 1900 to 2099.
    rule(
        r"\b((?:in|of|by|year|since|from|to|until|before|after) )(1[0-8]\d\d)(?!\w|[.,]\d)",
        lambda match: match[1] + year(match[2]),
        re.IGNORECASE,
    ),
    rule(r"(?<![\w.,$])(?:19|20)\d\d(?!\w|[.,]\d)", lambda match: year(match[0])),
    rule(NUMBER, lambda match: f" {number(match[0])} "),
)
