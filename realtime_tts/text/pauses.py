"""Pauses written in a text: `[pause:1.5s]`, `[pause:500ms]`, and SSML's `<break time="1s"/>` and `<break/>`."""

import re

MAX_PAUSE_S = 5.0
"""The longest silence before a sentence.  More is shortened, with a warning."""
_MEDIUM_S = 0.5
_STRENGTHS_S = {"none": 0.0, "x-weak": 0.1, "weak": 0.25, "medium": _MEDIUM_S, "strong": 0.75, "x-strong": 1.0}

_NUMBER = r"\s?(-?(?:\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})(?:[eE][+-]?\d{1,3})?)\s?(ms|s|secs?|seconds?)?\s?"
PAUSE = re.compile(rf"\[pause[: ]{_NUMBER}\]|<break(?:\s[^<>\n]{{0,80}})?/?>", re.IGNORECASE)
PAUSE_HEAD = re.compile(
    r"(?:\[p|<b)(?:ause[: ]?[-+.\w ]{0,40}|reak[^<>\n]{0,82}|a|au|aus|r|re|rea)?\Z|[\[<]\Z", re.IGNORECASE
)
"""At the end of the text: the start of what may become a pause."""
MAX_PAUSE_CHARS = 90
_TIME = re.compile(rf"\btime\s?=\s?[\"']?{_NUMBER}[\"']?", re.IGNORECASE)
_STRENGTH = re.compile(r"\bstrength\s?=\s?[\"']?([a-z-]{1,10})", re.IGNORECASE)


def pause_s(pause: re.Match[str]) -> float:
    """Seconds that a match of `PAUSE` asks for, which may be infinite; a negative time is none."""
    if pause[1] is not None:
        return _seconds(pause)
    if time := _TIME.search(pause[0]):
        return _seconds(time)
    strength = _STRENGTH.search(pause[0])
    return _STRENGTHS_S.get(strength[1].lower(), _MEDIUM_S) if strength else _MEDIUM_S


def _seconds(match: re.Match[str]) -> float:
    return max(0.0, float(match[1])) / (1000 if (match[2] or "").lower() == "ms" else 1)
