"""Numbers as spoken: 21 is "twenty one", 1999 a year, 007 its digits, Henry VIII "the eighth".  No digit remains."""

import re

from realtime_tts.text.rules import Rule, any_of, rule

_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES = (("trillion", 10**12), ("billion", 10**9), ("million", 10**6), ("thousand", 1000), ("hundred", 100))
_MAX_SPOKEN_DIGITS = 15  # "nine hundred ninety nine trillion …"; more are read one by one
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_DECADES = {
    "1": "teens",
    "2": "twenties",
    "3": "thirties",
    "4": "forties",
    "5": "fifties",
    "6": "sixties",
    "7": "seventies",
    "8": "eighties",
    "9": "nineties",
}

_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_NUMERAL = r"(?=[IVXLC]{2}|[VX]\b)(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
_ROYAL = (
    "Henry|Louis|Elizabeth|Charles|George|Edward|William|James|John|Paul|Pius|Benedict|Richard|Napoleon|Philip"
    "|Francis|Catherine|Alexander|Leo|Gregory|Mary|Frederick|Nicholas|Peter"
)
_NUMBERED = (
    r"[Vv]ol\.|(?:[Cc]hapter|[Pp]art|[Vv]olume|[Pp]hase|[Tt]ype|[Ss]ection|[Ll]evel|[Aa]rticle|[Bb]ook|[Ee]pisode"
    "|World War|Act|Super Bowl|Title|Scene)"
)

# As written: 1,234,567 or 1234 or .5 or 3.14.  Commas first, else "1" of "1,234" would match alone.
NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,6}(?!\d)|\d{1,40})(?:\.\d{1,40})?|\.\d{1,40}"


def digits(text: str) -> str:
    """ "408" -> "four zero eight"."""
    return " ".join(_SMALL[int(digit)] for digit in text if digit.isdecimal())


def cardinal(text: str) -> str:
    """ "1,234" -> "one thousand two hundred thirty four"; leading zeros and very long numbers digit by digit."""
    text = text.replace(",", "")
    if len(text) > _MAX_SPOKEN_DIGITS or (len(text) > 1 and text[0] == "0"):
        return digits(text)
    return _words(int(text))


def ordinal(value: int) -> str:
    """112 -> "one hundred twelfth"."""
    start, space, last = _words(value).rpartition(" ")
    return start + space + (_ORDINALS.get(last) or (f"{last[:-1]}ieth" if last[-1] == "y" else f"{last}th"))


def year(text: str) -> str:
    """ "1999" -> "nineteen ninety nine", "1905" -> "nineteen oh five", "2005" -> "two thousand five"."""
    high, low = divmod(int(text), 100)
    if high == 0 or (high % 10 == 0 and low < 10) or high >= 100:
        return _words(int(text))
    if low == 0:
        return f"{_words(high)} hundred"
    return f"{_words(high)} {'oh ' if low < 10 else ''}{_words(low)}"


def pairs(text: str) -> str:
    """ "1204" -> "twelve oh four", "305" -> "three oh five", "1200" -> "twelve hundred"."""
    high, low = text[:-2], int(text[-2:])
    if high[0] == "0":
        return digits(text)
    if low == 0:
        return cardinal(text) if text.endswith("000") else f"{cardinal(high)} hundred"
    return f"{cardinal(high)} {'oh ' if low < 10 else ''}{cardinal(str(low))}"


def number(text: str) -> str:
    """ "3.14" -> "three point one four", ".5" -> "zero point five"."""
    whole, _, fraction = text.partition(".")
    words = cardinal(whole) if whole else _SMALL[0]
    return f"{words} point {digits(fraction)}" if fraction else words


def _words(value: int) -> str:
    """American English, with neither "and" nor hyphens: so was the text that the voices were trained on."""
    if value < 20:
        return _SMALL[value]
    if value < 100:
        tens, ones = divmod(value, 10)
        return f"{_TENS[tens]} {_SMALL[ones]}" if ones else _TENS[tens]
    name, scale = next(each for each in _SCALES if value >= each[1])
    count, rest = divmod(value, scale)
    return f"{_words(count)} {name}{f' {_words(rest)}' if rest else ''}"


def _fraction(match: re.Match[str]) -> str:
    return fraction(match[1], match[2], match[3])


def fraction(whole: str | None, top: str, bottom: str) -> str:
    """ "2 1/2" -> "two and a half"."""
    if (top, bottom) in {("24", "7"), ("9", "11"), ("50", "50")}:
        words = f"{cardinal(top)} {cardinal(bottom)}"
    elif bottom in {"10", "100"}:
        words = f"{cardinal(top)} out of {cardinal(bottom)}"
    elif bottom in _PARTS and int(top) < 100:
        plural = "" if top == "1" else "s"
        words = f"{cardinal(top)} {_PARTS[bottom]}{plural}".replace("halfs", "halves")
    else:
        words = f"{cardinal(top)} over {cardinal(bottom)}"
    if whole:
        return f"{cardinal(whole)} and {words.replace('one half', 'a half').replace('one quarter', 'a quarter')}"
    return words


_PARTS = {"2": "half", "3": "third", "4": "quarter"} | {
    str(value): ordinal(value) for value in (5, 6, 7, 8, 9, 12, 16, 20, 32, 64)
}


def _roman(text: str) -> int:
    values = [_ROMAN[letter] for letter in text]
    pairs = zip(values, [*values[1:], 0], strict=True)
    return sum(-value if value < following else value for value, following in pairs)


def _royal(match: re.Match[str]) -> str:
    return f"{match[1]} the {ordinal(_roman(match[2]))}"


def _numbered(match: re.Match[str]) -> str:
    return f"{match[1]} {cardinal(str(_roman(match[2])))}"


def _decade(match: re.Match[str]) -> str:
    if match[2] == "0":
        return f"{year(match[1] + '00')}s" if match[1] else match[0]
    century = f"{cardinal(match[1])} " if match[1] else ""
    return century + _DECADES[match[2]]


def _decades(match: re.Match[str]) -> str:
    """The second of two decades.  A dash between them is a range."""
    if match[3] is None and match[2].strip() in ("and", "or", "to"):
        return match[0]
    joined = " to " if match[2].strip() in "-–" else match[2]
    return f"{match[1]}{joined}{_DECADES[match[3]] if match[3] else ''}"


_BEFORE_DECADE = ("the", "my", "your", "his", "her", "our", "their", "early", "mid", "late", "roaring", "swinging")
_OF_A_DECADE = (
    *("music", "kid", "kids", "style", "fashion", "movie", "movies", "film", "films", "hit", "hits", "song", "songs"),
    *("rock", "pop", "disco", "hip", "rap", "era", "vibe", "vibes", "party", "theme", "night", "nostalgia", "show"),
    *("shows", "sitcom", "sitcoms", "cartoon", "cartoons", "classic", "classics", "icon", "hair", "clothes", "look"),
    *("retro", "sound", "synth", "dance", "band", "bands", "car", "cars", "decor", "aesthetic", "child", "babies"),
)

# Before a digit is separated from the letters after it.
DECADE_RULES: tuple[Rule, ...] = (
    rule(r"(?<![\w.,])(1[1-9]|20)(\d)0'?s\b", _decade),
    # '80s and the 80s, but a timer of 30s.
    rule(r"(?<!\w)'()([2-9])0s\b", _decade),
    rule(r"\b([Mm]id|[Ee]arly|[Ll]ate)-(?=nineteen|eighteen|seventeen|two)", lambda match: f"{match[1]} "),
    # The 80s, my 40s, the late 90s, mid-80s, 80s music.
    rule(rf"\b({any_of(_BEFORE_DECADE)})[ -]([2-9])0'?s\b", lambda match: f"{match[1]} {_DECADES[match[2]]}", re.I),
    rule(rf"(?<![\w.,])()([2-9])0'?s(?= (?:{any_of(_OF_A_DECADE)})\b|-(?:style|era|inspired|themed)\b)", _decade),
    # In my 20s and 30s; the 1960s-80s.
    rule(
        rf"\b({any_of(_DECADES.values())}|hundreds|thousands)( and | or | to | ?[-–] ?)(?:'?([2-9])0'?s\b"
        rf"|(?=(?:\w{{3,9}} )?(?:{any_of(_DECADES.values())}|hundreds|thousands)\b))",
        _decades,
    ),
)

RULES: tuple[Rule, ...] = (
    rule(r"(?<![\w./])(?:(\d{1,4}) )?(\d{1,4})/(\d{1,4})(?![\w/])", _fraction),
    # A year: after a word that announces one, or from 1900 to 2099.
    rule(
        r"\b((?:in|of|by|year|since|from|to|until|before|after) )(1[0-8]\d\d)(?!\w|[.,]\d)",
        lambda match: match[1] + year(match[2]),
        re.IGNORECASE,
    ),
    rule(r"(?<![\w.,$])(?:19|20)\d\d(?!\w|[.,]\d)", lambda match: year(match[0])),
    rule(NUMBER, lambda match: f" {number(match[0])} "),
)

ROMAN_RULES: tuple[Rule, ...] = (
    rule(rf"\b({_ROYAL}) ({_NUMERAL})\b(?!')", _royal),
    rule(rf"\b({_NUMBERED}) ({_NUMERAL})\b(?!')", _numbered),
    rule(
        rf"\b(?!(?:The|An?|This|That|My|Your|His|Her|Our|An|In|On|By|Type|Mr|Mrs|Dr)\b)([A-Z][a-z]{{2,20}}) "
        rf"(?=[IVX]{{2}})({_NUMERAL})\b(?!'| (?:drip|bag|line|fluid))",
        _numbered,
    ),
    rule(r"\b(Super Bowl) (L)\b(?!')", _numbered),
    rule(r"\b(World War|Chapter|Act) (I)\b(?!')", _numbered),
)
