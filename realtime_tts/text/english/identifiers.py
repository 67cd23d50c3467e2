"""Numbers that identify something, digit by digit: 555-123-4567, v1.2.3, 192.168.0.1, order #4521."""

import re

from realtime_tts.text.english.numbers import cardinal, digits
from realtime_tts.text.rules import Rule, rule


def _phone(match: re.Match[str]) -> str:
    groups = re.findall(r"\d{1,20}", match[0])
    spoken = [_hundreds(group) if len(group) == 3 else digits(group) for group in groups]
    return ("plus " if match[0].startswith("+") else "") + ", ".join(spoken)


def _hundreds(group: str) -> str:
    return cardinal(group) if group.endswith("00") and group[0] != "0" else digits(group)


def _version(match: re.Match[str]) -> str:
    spoken = " point ".join(cardinal(part) for part in match[2].split("."))
    return f"version {spoken}" if match[1] else spoken


def _dotted(match: re.Match[str]) -> str:
    return " dot ".join(digits(part) for part in match[0].split("."))


# A listener may have to write these down.
CODE_RULES: tuple[Rule, ...] = (
    rule(
        r"\b((?:code|pin|zip|extension|account|order|flight|confirmation|ticket|case|tracking)"
        r"(?: number| no\.| id| is|:)? )#?(\d{3,20})(?![\w%]|[.,/-]\d)",
        lambda match: match[1] + digits(match[2]),
        re.IGNORECASE,
    ),
    rule(r"#(\d{4,20})(?!\w)", lambda match: f"number {digits(match[1])}"),
)

RULES: tuple[Rule, ...] = (
    rule(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]\w|\w)", _dotted),  # an IP address
    rule(r"(?<![\w.-])(v(?:ersion )?)(\d{1,6}(?:\.\d{1,6}){0,5})(?![\w]|\.\d)", _version, re.IGNORECASE),
    rule(r"(?<![\w.,$£€-])()(\d{1,6}(?:\.\d{1,6}){2,5})(?![\w]|\.\d)", _version),
    rule(r"(?<![\w.+-])(?:\+?1[-. ])?(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-.]\d{4}(?![\w-])", _phone),
    rule(r"(?<![\w.-])\+\d{1,3}(?:[ -]\(?\d{2,5}\)?){2,5}(?![\w-])", _phone),
    rule(r"(?<![\w.-])\d{3}-\d{4}(?![\w-])", _phone),
    rule(r"(?<![\w.-])\d{4}(?:[ -]\d{4}){3}(?![\w-])", _phone),
)
