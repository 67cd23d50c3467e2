"""Numbers that identify something, digit by digit: 555-123-4567, v1.2.3, 192.168.0.1, order #4521."""

import re

from realtime_tts.text.english.numbers import cardinal, digits, pairs
from realtime_tts.text.rules import Rule, any_of, rule


def _phone(match: re.Match[str]) -> str:
    groups = re.findall(r"\d{1,20}", match[0])
    spoken = [_hundreds(group) if len(group) == 3 else digits(group) for group in groups]
    return ("plus " if match[0].startswith("+") else "") + ", ".join(spoken)


def _ten_digits(match: re.Match[str]) -> str:
    """5551234567, which is no quantity: in groups."""
    return ", ".join(_hundreds(group) if len(group) == 3 else digits(group) for group in match.groups() if group)


def _hundreds(group: str) -> str:
    return cardinal(group) if group.endswith("00") and group[0] != "0" else digits(group)


def _version(match: re.Match[str]) -> str:
    spoken = " point ".join(cardinal(part) for part in match[2].split("."))
    return f"version {spoken}" if match[1] else spoken


def _dotted(match: re.Match[str]) -> str:
    return " dot ".join(digits(part) for part in match[0].split("."))


def _digits(match: re.Match[str]) -> str:
    return digits(match[1])


_CODES = (
    *("code", "passcode", "password", "pin", "otp", "zip", "postcode", "extension", "account", "order", "confirmation"),
    *("ticket", "case", "tracking", "invoice", "serial", "reference", "booking", "badge", "ending in", "ends in"),
    *("ending with", "ends with", "last four digits", "last 4 digits", "digits", "token", "routing", "member id"),
    *("phone", "telephone", "fax", "mobile", "cell", "ssn", "ssn ending", "card ending", "account ending"),
)
_CODE_OF = rf"(?:{any_of(_CODES)})(?: number| no\.| id| code)?(?:,? (?:is|was|are|of))?:?"
_SOFTWARE = (
    *("python", "node", "java", "php", "ruby", "ubuntu", "debian", "django", "ios", "macos", "android", "chrome"),
    *("firefox", "kernel", "bluetooth", "usb", "pytorch"),
)
_PAIRED = ("room", "suite", "apartment", "flight", "route", "highway", "bus", "channel", "unit", "rm.", "boeing")
_STATES = (
    *("AL", "AK", "AZ", "AR", "CA", "CO", "CT", "DE", "FL", "GA", "HI", "ID", "IL", "IN", "IA", "KS"),
    *("KY", "LA", "ME", "MD", "MA", "MI", "MN", "MS", "MO", "MT", "NE", "NV", "NH", "NJ", "NM", "NY"),
    *("NC", "ND", "OH", "OK", "OR", "PA", "RI", "SC", "SD", "TN", "TX", "UT", "VT", "VA", "WA", "WV"),
    *("WI", "WY", "DC"),
)

# A listener may have to write these down.
CODE_RULES: tuple[Rule, ...] = (
    rule(
        rf"\b({_CODE_OF} ?[\"“'#]{{0,2}})"
        r"(?<=[ \"“'#])(\d{3,20})(?![\w%]|[.,/-]\d|[ -]\d{3})",
        lambda match: match[1].rstrip("#") + digits(match[2]),
        re.IGNORECASE,
    ),
    rule(
        rf"\b({_CODE_OF} )(\d{{2,4}}(?:-\d{{2,4}}){{1,4}})"
        r"(?![\w-]|[.,/]\d)",
        lambda match: match[1] + ", ".join(digits(group) for group in match[2].split("-")),
        re.IGNORECASE,
    ),
    # Rooms and flights: 1204 is twelve oh four.
    rule(
        rf"\b({any_of(_PAIRED)})((?: number| no\.)? #?)(?:([A-Z]{{2}}|[A-Z]\d) ?)?(\d{{3,4}})(?![\w%]|[.,/-]\d)",
        lambda match: (
            f"{match[1]}{match[2].rstrip(' #')} {' '.join(match[3] or '')}{' ' if match[3] else ''}{pairs(match[4])}"
        ),
        re.IGNORECASE,
    ),
    rule(
        rf"\b({'|'.join(_STATES)}) (\d{{5}})(?:-(\d{{4}}))?(?![\w%]|[.,/-]\d)",
        lambda match: " ".join([*match[1], digits(match[2]) + (f", {digits(match[3])}" if match[3] else "")]),
    ),
    rule(r"(?<![\w.,$€£#-])(911)(?![\w%]|[.,/-]\d| [a-z]{2,20}s\b(?<!calls)(?<!services))", _digits),
    rule(
        r"\b((?:call|dial|ring|phone|text) )(\d{3})(?![\w%]|[.,/ -]\d)", lambda match: match[1] + digits(match[2]), re.I
    ),
    rule(
        r"\b(text \w{1,20} to |text )(\d{4,6})(?![\w%]|[.,/ -]\d)",
        lambda match: match[1] + digits(match[2]),
        re.IGNORECASE,
    ),
    rule(
        r"\b(IEEE )?802\.(\d{1,2})([a-z]{1,2})?(?!\w)",
        lambda match: f"{match[1] or ''}eight oh two dot {cardinal(match[2])} {' '.join(match[3] or '')}".rstrip(),
    ),
    rule(r"(?<![\w.,])(480|720|1080|1440|2160)([pi])\b", lambda match: f"{pairs(match[1])} {match[2]}"),
    rule(r"#(\d{4,20})(?!\w)", lambda match: f"number {digits(match[1])}"),
)

RULES: tuple[Rule, ...] = (
    rule(r"(?<![\w.+-])(?:\+?1[-. ])?(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}(?![\w-])", _phone),
    rule(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]\w|\w)", _dotted),  # an IP address
    rule(r"(?<![\w.-])(v(?:ersion )?)(\d{1,6}(?:\.\d{1,6}){0,5})(?![\w]|\.\d)", _version, re.IGNORECASE),
    rule(
        rf"\b((?:{any_of(_SOFTWARE)}) v?)(\d{{1,3}}(?:\.\d{{1,3}}){{1,3}})(?!\w|\.\d)",
        lambda match: match[1] + " point ".join(cardinal(part) for part in match[2].split(".")),
        re.IGNORECASE,
    ),
    rule(r"(?<![\w.,$£€-])()(\d{1,6}(?:\.\d{1,6}){2,5})(?![\w]|\.\d)", _version),
    rule(r"(?<![\w.-])\+\d{1,3}(?:[ -]\(?\d{2,6}\)?){2,5}(?![\w-])", _phone),
    rule(r"(?<![\w.,-])()(\d{3})(\d{3})(\d{4})(?![\w-]|[.,]\d)", _ten_digits),
    rule(r"(?<![\w.,-])(1)(\d{3})(\d{3})(\d{4})(?![\w-]|[.,]\d)", _ten_digits),
    rule(r"(?<![\w.,-])0\d{2,4}(?:[ -]\d{3,8}){1,2}(?![\w-]|[.,]\d)", _phone),  # British
    rule(r"(?<![\w.-])\d{3}-\d{4}(?![\w-])", _phone),
    rule(r"(?<![\w.-])\d{4}(?:[ -]\d{4}){3}(?![\w-])", _phone),
)
