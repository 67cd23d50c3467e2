"""Dates and times as spoken: 2026-11-29 is "November twenty ninth, twenty twenty six", 3:30 "three thirty".

British voices put the day first."""

import re
from collections.abc import Callable

from realtime_tts.text.english.numbers import cardinal, ordinal, year
from realtime_tts.text.rules import Rule, rule

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_SHORT = {name[:3]: name for name in _MONTHS} | {"Sept": "September"}
_MONTH_NAME = "(" + "|".join([*_MONTHS, "Sept", *(name[:3] for name in _MONTHS if name != "May")]) + r")\b"
_MONTH = _MONTH_NAME + r"\.?"
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


def _is_date(month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= 31


def _american(month: str, day: int) -> str:
    return f"{month} {ordinal(day)}"


def _british(month: str, day: int) -> str:
    return f"the {ordinal(day)} of {month}"


_SpokenDate = Callable[[str, int], str]


def _date(month: int, day: int, year_text: str | None, otherwise: str, spoken: _SpokenDate) -> str:
    if not _is_date(month, day):
        return otherwise
    words = spoken(_MONTHS[month - 1], day)
    return f"{words}, {year(year_text)}" if year_text else words


def _numeric_date(match: re.Match[str], spoken: _SpokenDate) -> str:
    first, second = int(match[1]), int(match[3])
    month, day = (second, first) if spoken is _british else (first, second)
    if month > 12:  # 29/11/2026 can only be day first, 11/29/2026 only month first
        month, day = day, month
    written_year = match[4] if len(match[4]) == 4 else f"20{match[4]}"
    return _date(month, day, written_year, match[0], spoken)


def _short_date(match: re.Match[str], spoken: _SpokenDate) -> str:
    """12/25 after a word such as "on"; but "reduced by 1/2" is a fraction."""
    first, second = int(match[2]), int(match[3])
    if match[1].lower() != "on" and match[3] in ("2", "3", "4", "5", "8", "10", "16"):
        return match[0]
    month, day = (second, first) if spoken is _british else (first, second)
    if month > 12:
        month, day = day, month
    return f"{match[1]} {_date(month, day, None, match[0][len(match[1]) + 1 :], spoken)}"


def _month_day(match: re.Match[str], spoken: _SpokenDate) -> str:
    day, last_day = int(match[2]), match[3]
    of_year = match[4] + year(match[5]) if match[5] else ""
    if not 1 <= day <= 31:
        return match[0]
    if last_day:
        return f"{_month(match[1])} {ordinal(day)} to {ordinal(int(last_day))}{of_year}"
    the = "the " if spoken is _british else ""
    return f"{_month(match[1])} {the}{ordinal(day)}{of_year}"


def _day_month(match: re.Match[str], spoken: _SpokenDate) -> str:
    """ "3 May" in the order of the accent; "the 4th of July" as it is written."""
    article, day, last_day, of = match[1] or "", int(match[2]), match[3], match[4]
    month = _month(match[5])
    of_year = match[6] + year(match[7]) if match[7] else ""
    if not 1 <= day <= 31:
        return match[0]
    if last_day:
        return f"{article}{ordinal(day)} to {ordinal(int(last_day))} of {month}{of_year}"
    if article or of:
        return f"{article}{ordinal(day)} of {month}{of_year}"
    return spoken(month, day) + of_year


def _weekdays(match: re.Match[str]) -> str:
    return f"{_WEEKDAYS[match[1]]} to {_WEEKDAYS.get(match[2], match[2])}"


def _clock_range(match: re.Match[str]) -> str:
    """9:00-17:00: the hour alone, where its minutes are zero."""
    hour = cardinal(str(int(match[1])))
    return f"{hour} to " if match[2] == "00" else f"{match[1]}:{match[2]} to "


def _clock(match: re.Match[str]) -> str:
    hour, minute, second = int(match[1]), int(match[2]), match[3]
    if hour > 24 or minute > 59:
        return f"{cardinal(match[1])} to {cardinal(str(minute))}"  # a ratio
    half = _half(match[4])
    hours = cardinal(str(hour))
    minutes = f"{'oh ' if 0 < minute < 10 else ''}{cardinal(str(minute))}"
    if second:
        return f"{hours} {minutes} and {cardinal(str(int(second)))} second{'' if int(second) == 1 else 's'}{half}"
    if minute:
        return f"{hours} {minutes}{half}"
    if hour in (0, 24) and not half:
        return "midnight"
    if half:
        return hours + half
    return f"{hours} o'clock" if 1 <= hour <= 12 else f"{hours} hundred"


def _half(written: str | None) -> str:
    """a.m. or p.m., with dots as in the dictionary of the voice."""
    return f" {written[0].lower()}.m." if written else ""


# The last dot of "p.m." belongs to it, and does not end a sentence.
_HALF_DAY = r"(?:\s?([ap]\.m\.|[ap]m\b))"

_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_LAST_DAY = r"(?: ?[-–—] ?(\d{1,2})(?:st|nd|rd|th)?)?"
_YEAR = r"(?:(,? )(1[1-9]\d\d|20\d\d)(?!\w|[.,]\d))?"
_SHORT_MONTHS = "|".join(name for name in _SHORT if name != "May")
_ANY_DAY = "|".join(_WEEKDAYS)
_FULL_DAY = "|".join(dict.fromkeys(_WEEKDAYS.values()))


def _rules(spoken: _SpokenDate) -> tuple[Rule, ...]:
    return (
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
        rule(r"(?<![\w.:])(\d{1,2}):(\d\d) ?[-–—] ?(?=\d{1,2}:\d\d(?!\w|:\d))", _clock_range),
        rule(
            r"(?<![\w-])(\d{4})-(\d\d)-(\d\d)(?:(?=T\d)T|(?![\w-]))",
            lambda match: (
                _date(int(match[2]), int(match[3]), match[1], match[0], spoken)
                + (" at " if match[0][-1] == "T" else "")
            ),
        ),
        rule(
            r"(?<![\w/])(\d{4})/(\d{1,2})/(\d{1,2})(?![\w/])",
            lambda match: _date(int(match[2]), int(match[3]), match[1], match[0], spoken),
        ),
        rule(
            r"(?<![\w.-])((?:19|20)\d\d)-(0[1-9]|1[0-2])(?![\w-]|[.,]\d)",
            lambda match: f"{_MONTHS[int(match[2]) - 1]} {year(match[1])}",
        ),
        rule(
            r"(?<![\w/.-])(\d{1,2})([/.])(\d{1,2})\2(\d{4}|\d\d)(?![\w/]|[.,]\d)",
            lambda match: _numeric_date(match, spoken),
        ),
        rule(
            r"\b(on|by|until|till|since|before|after|from|due|dated) (\d{1,2})/(\d{1,2})(?![\w/%]|[.,]\d)",
            lambda match: _short_date(match, spoken),
            re.IGNORECASE,
        ),
        rule(rf"\b({_ANY_DAY})\.? ?[-–—] ?({_ANY_DAY}|{_FULL_DAY})\b", _weekdays),
        rule(rf"\b({_FULL_DAY}) ?[-–—] ?(?={_FULL_DAY})", lambda match: f"{match[1]} to "),
        rule(
            rf"\b({_ANY_DAY})\b\.?(?=,? (?:\d|the \d|{'|'.join(sorted(_SHORT))}))",
            lambda match: _WEEKDAYS[match[1]],
        ),
        rule(r"\b(Mon|Tues?|Wed|Thu(?:rs?)?|Fri)\b(?:\.(?= [a-z]))?(?![-'\w])", lambda match: _WEEKDAYS[match[1]]),
        rule(
            rf"\b{_MONTH} {_DAY}{_LAST_DAY}\b(?![.,:/]\d|[\w%-]){_YEAR}",
            lambda match: _month_day(match, spoken),
        ),
        # The point of "Jan." is part of it where the sentence goes on.
        rule(
            rf"(?<![\w.,:/-])(the )?{_DAY}{_LAST_DAY}(?= of| [A-Z])( of)? {_MONTH_NAME}(?:\.(?= [a-z\d]))?{_YEAR}",
            lambda match: _day_month(match, spoken),
        ),
        rule(rf"\b{_MONTH}(?=,? \d{{4}}\b)", lambda match: _month(match[1])),
        rule(rf"\b({_SHORT_MONTHS})\.(?= [a-z\d])", lambda match: _month(match[1])),
        rule(rf"\b({_SHORT_MONTHS})(?=\.)", lambda match: _month(match[1])),
        rule(rf"\b([Ii]n|[Oo]f|[Bb]y) ({_SHORT_MONTHS})\b", lambda match: f"{match[1]} {_month(match[2])}"),
        *_CLOCK_RULES,
    )


_CLOCK_RULES: tuple[Rule, ...] = (
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
    rule(
        r"(?<![\w.,])(\d{1,3}(?:,\d{3}){1,4}|\d{1,12})(?:st|nd|rd|th)\b",
        lambda match: ordinal(int(match[1].replace(",", ""))),
        re.IGNORECASE,
    ),
)

RULES = _rules(_american)
BRITISH_RULES = _rules(_british)
