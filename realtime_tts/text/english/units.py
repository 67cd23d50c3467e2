"""Measures as spoken: 72°F, 60 mph, 50%, 5'10", 1h 5m, $5/month."""

import re

from realtime_tts.text.english.modifiers import is_modifier
from realtime_tts.text.english.numbers import NUMBER, cardinal, fraction, number
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
    "µg": ("microgram", "micrograms"),
    "mcg": ("microgram", "micrograms"),
    "ug": ("microgram", "micrograms"),
    "tbsp": ("tablespoon", "tablespoons"),
    "Tbsp": ("tablespoon", "tablespoons"),
    "tsp": ("teaspoon", "teaspoons"),
    "qt": ("quart", "quarts"),
    "gal": ("gallon", "gallons"),
    "fl oz": ("fluid ounce", "fluid ounces"),
    "dl": ("deciliter", "deciliters"),
    "dL": ("deciliter", "deciliters"),
    "cl": ("centiliter", "centiliters"),
    "µl": ("microliter", "microliters"),
    "µL": ("microliter", "microliters"),
    "cc": ("C C", "C Cs"),
    "ha": ("hectare", "hectares"),
    "mmol": ("millimole", "millimoles"),
    "mol": ("mole", "moles"),
    "mmHg": ("millimeter of mercury", "millimeters of mercury"),
    "Pa": ("pascal", "pascals"),
    "kPa": ("kilopascal", "kilopascals"),
    "MPa": ("megapascal", "megapascals"),
    "mbar": ("millibar", "millibars"),
    "N": ("newton", "newtons"),
    "Nm": ("newton meter", "newton meters"),
    "kN": ("kilonewton", "kilonewtons"),
    "kJ": ("kilojoule", "kilojoules"),
    "Ω": ("ohm", "ohms"),
    "mΩ": ("milliohm", "milliohms"),
    "kΩ": ("kilohm", "kilohms"),
    "MΩ": ("megohm", "megohms"),
    "µF": ("microfarad", "microfarads"),
    "nF": ("nanofarad", "nanofarads"),
    "pF": ("picofarad", "picofarads"),
    "mA": ("milliamp", "milliamps"),
    "Ah": ("amp hour", "amp hours"),
    "kV": ("kilovolt", "kilovolts"),
    "mW": ("milliwatt", "milliwatts"),
    "GW": ("gigawatt", "gigawatts"),
    "Wh": ("watt hour", "watt hours"),
    "MWh": ("megawatt hour", "megawatt hours"),
    "GWh": ("gigawatt hour", "gigawatt hours"),
    "kwh": ("kilowatt hour", "kilowatt hours"),
    "KWh": ("kilowatt hour", "kilowatt hours"),
    "kWH": ("kilowatt hour", "kilowatt hours"),
    "KWH": ("kilowatt hour", "kilowatt hours"),
    "khz": ("kilohertz", "kilohertz"),
    "KHz": ("kilohertz", "kilohertz"),
    "mhz": ("megahertz", "megahertz"),
    "ghz": ("gigahertz", "gigahertz"),
    "THz": ("terahertz", "terahertz"),
    "gb": ("gigabyte", "gigabytes"),
    "mb": ("megabyte", "megabytes"),
    "kb": ("kilobyte", "kilobytes"),
    "tb": ("terabyte", "terabytes"),
    "KiB": ("kibibyte", "kibibytes"),
    "TiB": ("tebibyte", "tebibytes"),
    "Kbps": ("kilobit per second", "kilobits per second"),
    "mbps": ("megabit per second", "megabits per second"),
    "MBps": ("megabyte per second", "megabytes per second"),
    "bps": ("bit per second", "bits per second"),
    "bpm": ("beat per minute", "beats per minute"),
    "ppm": ("part per million", "parts per million"),
    "lm": ("lumen", "lumens"),
    "lx": ("lux", "lux"),
    "MP": ("megapixel", "megapixels"),
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
}
_LENGTHS = {
    "m": "meter",
    "km": "kilometer",
    "cm": "centimeter",
    "mm": "millimeter",
    "mi": "mile",
    "ft": "foot",
    "in": "inch",
}
_MANY = {"foot": "feet", "inch": "inches"}
_UNITS |= {
    f"{unit}{sign}": (f"{power} {name}", f"{power} {_MANY.get(name, name + 's')}")
    for unit, name in _LENGTHS.items()
    for power, signs in (("square", ("²", "2", "^2")), ("cubic", ("³", "3", "^3")))
    for sign in signs
}
_UNITS |= {f"sq {unit}": (f"square {name}", f"square {_MANY.get(name, name + 's')}") for unit, name in _LENGTHS.items()}
_UNITS |= {unit.replace("µ", "μ"): names for unit, names in _UNITS.items() if "µ" in unit}  # the Greek letter
_UNITS |= {
    f"{sign}{unit}": (f"{prefix}{name}", f"{prefix}{name}s")
    for sign, prefix in (("k", "kilo"), ("M", "mega"), ("G", "giga"))
    for unit, name in (("bit", "bit"), ("Bit", "bit"))
}
_PER = {"s": "second", "sec": "second", "min": "minute", "h": "hour", "hr": "hour", "mo": "month", "yr": "year"}
_PER |= {"kg": "kilogram", "m": "meter", "km": "kilometer", "GB": "gigabyte", "L": "liter", "mi": "mile", "d": "day"}
_PER |= {"l": "liter", "dL": "deciliter", "dl": "deciliter", "mL": "milliliter", "ml": "milliliter", "g": "gram"}
_PER |= {
    "cm": "centimeter",
    "mm": "millimeter",
    "ft": "foot",
    "lb": "pound",
    "gal": "gallon",
    "wk": "week",
    "W": "watt",
}
_PER |= {
    word: word
    for word in (
        *("second", "minute", "hour", "day", "week", "month", "year"),
        *("person", "user", "mile", "gallon", "night", "page"),
    )
}


def _unit(match: re.Match[str]) -> str:
    one, many = _UNITS[match[2].replace("º", "°")]
    power = {"": "", "2": " squared", "3": " cubed"}[(match[4] or "")[-1:].translate(_POWERS)]
    per = f" per {_PER[match[3]]}{power}" if match[3] else ""
    single = match[1] == "1" or (not per and is_modifier(match))
    return f"{number(match[1])} {one if single else many}{per} "


_POWERS = str.maketrans("²³", "23")


def _part_of_unit(match: re.Match[str]) -> str:
    """1/2 tsp is one half teaspoon, 1 1/2 tsp one and a half teaspoons."""
    one, many = _UNITS[match[4].replace("º", "°")]
    return f"{fraction(match[1], match[2], match[3])} {many if match[1] else one}"


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
    rule(r"(?<![\w.,])(\d{1,2})h(\d\d)()\b", _duration),
    rule(r"(?<![\w.,])()(\d{1,3})m(?:in)? ?(\d{1,2})s(?:ec)?\b", _duration),
)

RULES: tuple[Rule, ...] = (
    rule(rf"(?<![\w./])(?:(\d{{1,3}}) )?(\d{{1,2}})/(\d{{1,2}}) ?({any_of(_UNITS)})(?!\w)", _part_of_unit),
    # Blood pressure.
    rule(r"(?<![\w.,/])(\d{2,3})/(\d{2,3})(?= ?mmHg\b)", lambda match: f"{cardinal(match[1])} over {match[2]}"),
    rule(rf"(?<![\w.,])({NUMBER})[ -]?({any_of(_UNITS)}|º[CF]?)(?:/({any_of(_PER)})(\^?[23]|[²³])?)?(?!\w)", _unit),
    rule(rf"(?<=[a-z]) ?/ ?({any_of(_PER)})\b(?![\w/])", lambda match: f" per {_PER[match[1]]}"),
)
