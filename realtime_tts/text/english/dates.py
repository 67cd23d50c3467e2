"""Dates and times as spoken: 2026-11-29 is "November twenty ninth, twenty twenty six", 3:30 "three thirty"."""

import re

from realtime_tts.text.english.numbers import cardinal, ordinal, year
from realtime_tts.text.rules import Rule, rule

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_SHORT = {name[:3]: name for name in _MONTHS} | {"Sept": "September"}
_MONTH = "(" + "|".join([*_MONTHS, "Sept", *(name[:3] for name in _MONTHS if name != "May")]) + r")\b\.?"
_WEEKDAYS = {
    "Mon": "Monday",
    "Tue": "Tuesday",
    "Tues": "Tuesday",
    "Wed": "Wednesday",
    "Thu": "Thursday",
    "Thur": "Thursday",
    "Thurs": "Thursday",
    "Fri": "Friday",
    "Sat": "Saturday",
    "Sun": "Sunday",
}


def _month(name: str) -> str:
    return _SHORT.get(name, name)


def _date(month: int, day: int, year_text: str | None, otherwise: str) -> str:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return otherwise
    spoken = f"{_MONTHS[month - 1]} {ordinal(day)}"
    return f"{spoken}, {year(year_text)}" if year_text else spoken


def _numeric_date(match: re.Match[str]) -> str:
    month, day = int(match[1]), int(match[3])
    if month > 12:  # 29/11/2026 can only be day first
        month, day = day, month
    written_year = match[4] if len(match[4]) == 4 else f"20{match[4]}"
    return _date(month, day, written_year, match[0])


def _month_day(match: re.Match[str]) -> str:
    return f"{_month(match[1])} {ordinal(int(match[2]))}" if 1 <= int(match[2]) <= 31 else match[0]


def _day_month(match: re.Match[str]) -> str:
    return f"{_month(match[2])} {ordinal(int(match[1]))}" if 1 <= int(match[1]) <= 31 else match[0]


def _clock(match: re.Match[str]) -> str:
    hour, minute, second = int(match[1]), int(match[2]), match[3]
    if hour > 24 or minute > 59:
        return f"{cardinal(match[1])} to {cardinal(str(minute))}"  # a ratio
    half = _half(match[4])
    hours = cardinal(str(hour))
    if second:
        return f"{hours} {cardinal(str(minute))} and {cardinal(str(int(second)))} seconds{half}"
    if minute:
        return f"{hours} {'oh ' if minute < 10 else ''}{cardinal(str(minute))}{half}"
    if half:
        return hours + half
    return f"{hours} o'clock" if 1 <= hour <= 12 else f"{hours} hundred"


def _half(written: str | None) -> str:
    """a.m. or p.m., with dots as in the dictionary of the voice."""
    return f" {written[0].lower()}.m." if written else ""


# The last dot of "p.m." belongs to it, and does not end a sentence.
_HALF_DAY = r"(?:\s?([ap]\.m\.|[ap]m\b))"

RULES: tuple[Rule, ...] = (
    rule(
        r"(?<![\w.:])(\d{1,2})\.(\d\d)(?= ?[ap]\.?m\b)",  # 3.30pm, as the British write it
        lambda match: f"{match[1]}:{match[2]}",
        re.IGNORECASE,
    ),
    # 4-5pm: only the dash is replaced here.
    rule(
        r"(?<![\w.:])(\d{1,2}(?::\d\d)?\s?(?:[ap]\.?m\.?)?) ?[-–] ?(?=\d{1,2}(?::\d\d)?\s?[ap]\.?m)",
        lambda match: f"{match[1]} to ",
        re.IGNORECASE,
    ),
    rule(
        r"(?<![\w-])(\d{4})-(\d\d)-(\d\d)(?:(?=T\d)T|(?![\w-]))",
        lambda match: _date(int(match[2]), int(match[3]), match[1], match[0]) + (" at " if match[0][-1] == "T" else ""),
    ),
    rule(r"(?<![\w/.-])(\d{1,2})([/.])(\d{1,2})\2(\d{4}|\d\d)(?![\w/]|[.,]\d)", _numeric_date),
    rule(
        rf"\b({'|'.join(_WEEKDAYS)})\b\.?(?=,? (?:\d|{'|'.join(sorted(_SHORT))}))",
        lambda match: _WEEKDAYS[match[1]],
    ),
    rule(r"\b(Mon|Tues?|Wed|Thu(?:rs?)?|Fri)\b\.?(?![-'\w])", lambda match: _WEEKDAYS[match[1]]),
    rule(rf"\b{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?\b(?![.,:/]\d|[\w%-])", _month_day),
    rule(rf"(?<![\w.,:/-])(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH}", _day_month),
    rule(rf"\b{_MONTH}(?=,? \d{{4}}\b)", lambda match: _month(match[1])),
    rule(rf"(?<![\w:.])(\d{{1,2}}):(\d\d)(?::(\d\d)(?:\.\d{{1,6}})?)?{_HALF_DAY}?Z?(?!\w|:\d)", _clock, re.IGNORECASE),
    rule(
        rf"(?<![\w:.])(\d{{1,2}}){_HALF_DAY}(?!\w)",
        lambda match: cardinal(match[1]) + _half(match[2]),
        re.IGNORECASE,
    ),
    rule(
        r"(?<![\w:.])(\d{1,4}):(\d{1,4})(?![\w:])",
        lambda match: f"{cardinal(match[1])} to {cardinal(match[2])}",
    ),
    rule(r"(?<![\w.,])(\d{1,12})(?:st|nd|rd|th)\b", lambda match: ordinal(int(match[1])), re.IGNORECASE),
)
