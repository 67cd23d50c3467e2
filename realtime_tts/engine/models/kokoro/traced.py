"""Text that remembers where each of its characters came from, through every rule that rewrites it."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

Say = Callable[[re.Match[str]], str]


class Rule(NamedTuple):
    """What a written form looks like, and how it is said.

    Every pattern is bounded, and starts where no other match of it could have started a character earlier: the time
    for a text is linear in its length, whatever it holds.
    """

    pattern: re.Pattern[str]
    say: Say


def rule(pattern: str, say: Say | str, flags: int = 0) -> Rule:
    words = say if callable(say) else (lambda _match, text=say: text)
    return Rule(re.compile(pattern, flags), words)


@dataclass(frozen=True, slots=True)
class Traced:
    """`origins[i]` is the place, in the text as it was written, that `text[i]` stands for.  They never decrease."""

    text: str
    origins: Sequence[int]

    def __post_init__(self) -> None:
        assert len(self.text) == len(self.origins), "every character has an origin"

    @classmethod
    def of(cls, text: str) -> "Traced":
        return cls(text, range(len(text)))

    def __getitem__(self, part: slice) -> "Traced":
        return Traced(self.text[part], self.origins[part])

    def apply(self, rules: Sequence[Rule]) -> "Traced":
        traced = self
        for each in rules:
            traced = traced._rewritten(each)
        return traced

    def strip(self) -> "Traced":
        start = len(self.text) - len(self.text.lstrip())
        return self[start : max(start, len(self.text.rstrip()))]

    def mapped(self, said: Callable[[str], str]) -> "Traced":
        """Every character in the words of `said`: one, several or none."""
        parts = [said(character) for character in self.text]
        origins = [origin for origin, part in zip(self.origins, parts, strict=True) for _ in part]
        return Traced("".join(parts), origins)

    def only(self, symbols: Collection[str]) -> "Traced":
        return self.mapped(lambda symbol: symbol if symbol in symbols else "")

    def _rewritten(self, each: Rule) -> "Traced":
        parts: list[str] = []
        origins: list[int] = []
        done = 0
        for match in each.pattern.finditer(self.text):
            said = each.say(match)
            if said == match[0]:
                continue
            start, end = match.span()
            parts += (self.text[done:start], said)
            origins += self.origins[done:start]
            origins += self._replaced(start, end, said)
            done = end
        if not parts:
            return self
        parts.append(self.text[done:])
        origins += self.origins[done:]
        return Traced("".join(parts), origins)

    def _replaced(self, start: int, end: int, said: str) -> Sequence[int]:
        """Origins for `said` in the place of `text[start:end]`.

        What both begin and end with is the same text; what lies between is spread over what it replaces, so that of
        "Nov 29th" the "twenty ninth" belongs to "29th".
        """
        written = self.text[start:end]
        same = _shared(written, said)
        longest_end = min(len(written), len(said)) - same
        same_end = min(longest_end, _shared(written[::-1], said[::-1]))
        changed = self.origins[start + same : end - same_end] or self._beside(start + same)
        between = spread(changed, len(said) - same - same_end)
        return [*self.origins[start : start + same], *between, *self.origins[end - same_end : end]]

    def _beside(self, place: int) -> Sequence[int]:
        """The origin of what is put in at `place`: its neighbour's."""
        return self.origins[max(0, place - 1) : max(0, place - 1) + 1] or (0,)


def spread(origins: Sequence[int], count: int) -> list[int]:
    """`count` origins, evenly over these."""
    return [origins[index * len(origins) // count] for index in range(count)]


def _shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
