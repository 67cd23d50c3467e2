"""Measures as spoken: 72°F, 60 mph, 50%, 5'10", 1h 5m, $5/month."""

import re

from realtime_tts.text.english.numbers import NUMBER, cardinal, number
from realtime_tts.text.rules import Rule, any_of, rule

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
    for word in (
        *("second", "minute", "hour", "day", "week", "month", "year"),
        *("person", "user", "mile", "gallon", "night", "page"),
    )
}


def _unit(match: re.Match[str]) -> str:
    one, many = _UNITS[match[2].replace("μ", "µ").replace("º", "°")]
    per = f" per {_PER[match[3]]}" if match[3] else ""
    return f"{number(match[1])} {one if match[1] == '1' else many}{per} "


def _duration(match: re.Match[str]) -> str:
    amounts = zip(match.groups(), (("hour", "hours"), ("minute", "minutes"), ("second", "seconds")), strict=True)
    return " ".join(f"{cardinal(text)} {one if text == '1' else many}" for text, (one, many) in amounts if text)


def _height(match: re.Match[str]) -> str:
    return f"{cardinal(match[1])} foot {cardinal(match[2])}"


# Before ranges and signs, which also have a dash or a tilde.
EARLY_RULES: tuple[Rule, ...] = (
    rule(r"(?<![\w.])(\d)'(\d{1,2})(?:\"|'')", _height),
    rule(r"[~≈] ?(?=[\d$£€])", "about "),
    rule(r"(?<![\w.,])(\d{1,3})h ?(\d{1,2})m(?:in)?(?: ?(\d{1,2})s)?\b", _duration),
)

RULES: tuple[Rule, ...] = (
    rule(rf"(?<![\w.,])({NUMBER})[ -]?({any_of(_UNITS)}|μ[ms]|º[CF]?)(?:/({any_of(_PER)}))?(?!\w)", _unit),
    rule(rf"(?<=[a-z]) ?/ ?({any_of(_PER)})\b(?![\w/])", lambda match: f" per {_PER[match[1]]}"),
)
