"""Rewrite rules: regular expressions and their replacements, applied to a text without losing its offsets."""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from realtime_tts.text.offsets import AlignedText, OffsetMap

Replace = Callable[[re.Match[str]], str]


class Rule(NamedTuple):
    """A written form, and what replaces it.

    Every pattern is bounded, and starts where no other match of it could have started a character earlier: the time
    for a text is linear in its length, for any text.
    """

    pattern: re.Pattern[str]
    replace: Replace


def rule(pattern: str, replacement: Replace | str, flags: int = 0) -> Rule:
    """A `str` replacement is literal text."""
    replace = replacement if callable(replacement) else (lambda _match, text=replacement: text)
    return Rule(re.compile(pattern, flags), replace)


def any_of(words: Iterable[str]) -> str:
    """A pattern of any of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def apply_rules(text: AlignedText, rules: Iterable[Rule]) -> AlignedText:
    """The text after all rules, one after the other."""
    for each in rules:
        edits = [
            (match.start(), match.end(), replacement)
            for match in each.pattern.finditer(text.text)
            if (replacement := each.replace(match)) != match[0]
        ]
        if edits:
            text = _edited(text, edits)
    return text


def _edited(aligned: AlignedText, edits: list[tuple[int, int, str]]) -> AlignedText:
    """The text with a replacement for each `[start, end)`, in order."""
    text = aligned.text
    parts: list[str] = []
    offsets = OffsetMap(aligned.offsets.origin)
    done = 0
    for start, end, replacement in edits:
        # What both begin and end with is the same text.  What lies between is spread over what it replaces, so that
        # of "Nov 29th" the "twenty ninth" stands for "29th".
        written = text[start:end]
        same = _common_start(written, replacement)
        same_tail = min(_common_start(written[::-1], replacement[::-1]), min(len(written), len(replacement)) - same)
        offsets.append_part(aligned.offsets, done, start + same)
        offsets.append_spread(aligned.offsets, start + same, end - same_tail, len(replacement) - same - same_tail)
        offsets.append_part(aligned.offsets, end - same_tail, end)
        parts += (text[done:start], replacement)
        done = end
    parts.append(text[done:])
    offsets.append_part(aligned.offsets, done, len(text))
    return AlignedText("".join(parts), offsets)


def _common_start(one: str, other: str) -> int:
    """How many characters both begin with."""
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length
