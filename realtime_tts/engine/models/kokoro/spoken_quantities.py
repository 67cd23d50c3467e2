"""Amounts as they are said: $3.50, 72°F, 60 mph, 50%, 3-5, 555-123-4567, v1.2.3, 2 + 2 = 4."""

import re

from realtime_tts.engine.models.kokoro.spoken_numbers import NUMBER, cardinal, digits, is_one, number
from realtime_tts.engine.models.kokoro.traced import Rule, rule

_CURRENCIES = {  # one, many, one hundredth, hundredths
    "$": ("dollar", "dollars", "cent", "cents"),
    "US$": ("U.S. dollar", "U.S. dollars", "cent", "cents"),
    "USD": ("U.S. dollar", "U.S. dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "GBP": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "EUR": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
_SCALES = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion", "t": "trillion"}

_UNITS = {  # as written: one, many
    "km": ("kilometer", "kilometers"),
    "m": ("meter", "meters"),
    "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"),
    "µm": ("micrometer", "micrometers"),
    "nm": ("nanometer", "nanometers"),
    "mi": ("mile", "miles"),
    "ft": ("foot", "feet"),
    "yd": ("yard", "yards"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "kg": ("kilogram", "kilograms"),
    "g": ("gram", "grams"),
    "mg": ("milligram", "milligrams"),
    "L": ("liter", "liters"),
    "l": ("liter", "liters"),
    "mL": ("milliliter", "milliliters"),
    "ml": ("milliliter", "milliliters"),
    "s": ("second", "seconds"),
    "ms": ("millisecond", "milliseconds"),
    "µs": ("microsecond", "microseconds"),
    "ns": ("nanosecond", "nanoseconds"),
    "sec": ("second", "seconds"),
    "secs": ("second", "seconds"),
    "min": ("minute", "minutes"),
    "mins": ("minute", "minutes"),
    "h": ("hour", "hours"),
    "hr": ("hour", "hours"),
    "hrs": ("hour", "hours"),
    "Hz": ("hertz", "hertz"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "W": ("watt", "watts"),
    "kW": ("kilowatt", "kilowatts"),
    "MW": ("megawatt", "megawatts"),
    "kWh": ("kilowatt hour", "kilowatt hours"),
    "V": ("volt", "volts"),
    "mV": ("millivolt", "millivolts"),
    "mAh": ("milliamp hour", "milliamp hours"),
    "KB": ("kilobyte", "kilobytes"),
    "kB": ("kilobyte", "kilobytes"),
    "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"),
    "TB": ("terabyte", "terabytes"),
    "PB": ("petabyte", "petabytes"),
    "MiB": ("mebibyte", "mebibytes"),
    "GiB": ("gibibyte", "gibibytes"),
    "kbps": ("kilobit per second", "kilobits per second"),
    "Mbps": ("megabit per second", "megabits per second"),
    "Gbps": ("gigabit per second", "gigabits per second"),
    "mph": ("mile per hour", "miles per hour"),
    "kph": ("kilometer per hour", "kilometers per hour"),
    "rpm": ("R P M", "R P M"),
    "fps": ("F P S", "F P S"),
    "dB": ("decibel", "decibels"),
    "kcal": ("kilocalorie", "kilocalories"),
    "cal": ("calorie", "calories"),
    "psi": ("P S I", "P S I"),
    "hPa": ("hectopascal", "hectopascals"),
    "px": ("pixel", "pixels"),
    "°C": ("degree Celsius", "degrees Celsius"),
    "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "°": ("degree", "degrees"),
    "%": ("percent", "percent"),
    "¢": ("cent", "cents"),
    "sq ft": ("square foot", "square feet"),
    "m2": ("square meter", "square meters"),
    "m²": ("square meter", "square meters"),
    "km²": ("square kilometer", "square kilometers"),
    "m³": ("cubic meter", "cubic meters"),
    "ft²": ("square foot", "square feet"),
}
_PER = {"s": "second", "sec": "second", "min": "minute", "h": "hour", "hr": "hour", "mo": "month", "yr": "year"}
_PER |= {"kg": "kilogram", "m": "meter", "km": "kilometer", "GB": "gigabyte", "L": "liter", "mi": "mile", "d": "day"}
_PER |= {
    word: word
    for word in [
        "second",
        "minute",
        "hour",
        "day",
        "week",
        "month",
        "year",
        "person",
        "user",
        "mile",
        "gallon",
        "night",
        "page",
    ]
}

_OPERATORS = {"+": "plus", "=": "equals", "×": "times", "*": "times", "÷": "divided by", "<": "is less than"}
_OPERATORS |= {">": "is greater than", "≤": "is at most", "≥": "is at least", "≠": "is not equal to", "≈": "is about"}
_OPERATORS |= {"==": "equals", "<=": "is at most", ">=": "is at least", "!=": "is not equal to", "-": "minus"}
_OPERATORS |= {"−": "minus", "–": "minus", "/": "divided by", "->": "to", "→": "to", "^": "to the power of"}


def _any(words: dict[str, str] | dict[str, tuple[str, str]] | dict[str, tuple[str, str, str, str]]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def _money(amount: str, currency: str, scale: str | None) -> str:
    one, many, cent, cents = _CURRENCIES[currency]
    if scale:
        return f"{number(amount)} {_SCALES.get(scale.lower(), scale)} {many}"
    whole, _, fraction = amount.replace(",", "").partition(".")
    if len(fraction) > 2:
        return f"{number(amount)} {many}"
    hundredths = int(fraction.ljust(2, "0")) if fraction else 0
    units = f"{cardinal(whole or '0')} {one if is_one(whole) else many}"
    parts = f"{cardinal(str(hundredths))} {cent if hundredths == 1 else cents}"
    if not hundredths:
        return units
    return f"{units} and {parts}" if whole.strip("0") else parts


def _unit(match: re.Match[str]) -> str:
    one, many = _UNITS[match[2].replace("μ", "µ").replace("º", "°")]
    per = f" per {_PER[match[3]]}" if match[3] else ""
    return f"{number(match[1])} {one if is_one(match[1]) else many}{per} "


def _phone(match: re.Match[str]) -> str:
    groups = re.findall(r"\d{1,20}", match[0])
    said = [_hundreds(group) if len(group) == 3 else digits(group) for group in groups]
    return ("plus " if match[0].startswith("+") else "") + ", ".join(said)


def _hundreds(group: str) -> str:
    return f"{cardinal(group)}" if group.endswith("00") and group[0] != "0" else digits(group)


def _version(match: re.Match[str]) -> str:
    said = " point ".join(cardinal(part) for part in match[2].split("."))
    return f"version {said}" if match[1] else said


def _dotted(match: re.Match[str]) -> str:
    return " dot ".join(digits(part) for part in match[0].split("."))


def _duration(match: re.Match[str]) -> str:
    amounts = zip(match.groups(), (("hour", "hours"), ("minute", "minutes"), ("second", "seconds")), strict=True)
    return " ".join(f"{cardinal(text)} {one if is_one(text) else many}" for text, (one, many) in amounts if text)


def _height(match: re.Match[str]) -> str:
    return f"{cardinal(match[1])} foot {cardinal(match[2])}"


_AMOUNT = rf"({NUMBER})"
_SCALE = r"(?:\s?(thousand|million|billion|trillion|[kK]|[mM]n?|[bB]n?|[tT])\b)?"
_SIGN = r"(US\$|[$£€¥₹])"

RULES: tuple[Rule, ...] = (
    rule(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]\w|\w)", _dotted),  # an IP address
    rule(r"(?<![\w.-])(v(?:ersion )?)(\d{1,6}(?:\.\d{1,6}){0,5})(?![\w]|\.\d)", _version, re.IGNORECASE),
    rule(r"(?<![\w.,$£€-])()(\d{1,6}(?:\.\d{1,6}){2,5})(?![\w]|\.\d)", _version),
    rule(r"(?<![\w.+-])(?:\+?1[-. ])?(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-.]\d{4}(?![\w-])", _phone),
    rule(r"(?<![\w.-])\+\d{1,3}(?:[ -]\(?\d{2,5}\)?){2,5}(?![\w-])", _phone),
    rule(r"(?<![\w.-])\d{3}-\d{4}(?![\w-])", _phone),
    rule(r"(?<![\w.-])\d{4}(?:[ -]\d{4}){3}(?![\w-])", _phone),
    rule(r"(?<![\w.])(\d)'(\d{1,2})(?:\"|'')", _height),
    rule(r"[~≈] ?(?=[\d$£€])", "about "),
    rule(r"(?<![\w.,])(\d{1,3})h ?(\d{1,2})m(?:in)?(?: ?(\d{1,2})s)?\b", _duration),
    # Ranges only lose their dash here; what is said of each end is decided below.
    rule(rf"(?<![\w.,)-])({_SIGN}?{NUMBER}%?)\s?[-–—](?={_SIGN}?\d)(?!\d{{1,20}}-)", lambda match: f"{match[1]} to "),
    rule(r"(?<=\d) ?[–—] ?(?=\d)", " to "),
    rule(rf"(?<![\w)])[-−](?={_SIGN}?\.?\d)", "minus "),
    rule(
        rf"{_SIGN}\s?{_AMOUNT}{_SCALE}",
        lambda match: f"{_money(match[2], match[1], match[3])} ",
    ),
    rule(rf"(?<![\w.,])(USD|GBP|EUR)\s{_AMOUNT}{_SCALE}", lambda match: _money(match[2], match[1], match[3])),
    rule(
        rf"(?<![\w.,]){_AMOUNT}{_SCALE}\s?(€|£|USD\b|GBP\b|EUR\b)", lambda match: _money(match[1], match[3], match[2])
    ),
    rule(rf"(?<![\w.,]){_AMOUNT}[ -]?({_any(_UNITS)}|μ[ms]|º[CF]?)(?:/({_any(_PER)}))?(?!\w)", _unit),
    rule(rf"(?<=[a-z]) ?/ ?({_any(_PER)})\b(?![\w/])", lambda match: f" per {_PER[match[1]]}"),
    rule(
        rf"(?<![\w.,]){_AMOUNT}(M|bn|(?<=\.\d)B)\b",  # 5M, 3.2bn, 1.5B; but house 221B
        lambda match: f"{number(match[1])} {_SCALES[match[2].lower()]}",
    ),
    rule(r"(?<=\d) ?x ?(?=\d)", " by "),
    rule(
        r"(?<=[\d\w)]) (==|<=|>=|!=|->|[+=×*÷<>≤≥≠≈^→]|[-−–/](?= ?[\d(]))(?= [\w(.])",
        lambda match: f" {_OPERATORS[match[1]]} ",
    ),
    rule(r"(?<=\d)(==|<=|>=|!=|[+=×*÷<>≤≥≠≈^])(?=[\d(])", lambda match: f" {_OPERATORS[match[1]]} "),
    rule(r"(?<=[\w)]) ?= ?(?=[\w(])", " equals "),
    rule(r"(?<=\w)²", " squared "),
    rule(r"(?<=\w)³", " cubed "),
    rule(r"±", " plus or minus "),
    rule(r"√ ?(?=[\w(])", " the square root of "),
    rule(r"#(?=\d)", "number "),
)
