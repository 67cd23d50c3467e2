"""Reads a text that is still coming, passes most of it on, and knows where everything it passed on came from.

The clean-up of text (`text.py`) says what is a mark; here is how a mark is looked for that may not have come yet, what
is put where it was, and the bookkeeping.
"""

import re
from abc import ABC, abstractmethod

from realtime_tts.text import patterns as marks
from realtime_tts.text.offsets import SourceMap

_CLOSERS = ".,;:!?…)]}»”’。，、！？；：）」』"
_OPENERS = "([{«“‘（「『"


class NeedsMoreError(Exception):
    """What comes next cannot be told from what has come."""


class TextScanner(ABC):
    """A subclass takes one thing from the text in each `_step`: it passes, replaces or drops it, or raises for more."""

    def __init__(self) -> None:
        self._map = SourceMap()
        # text[0] is context: the character before text[1], which was received at origin + 1.
        self._text, self._at, self._origin = "\n", 1, -1
        self._out: list[str] = []
        self._last = ""  # character of the clean text
        self._final = False  # nothing follows text[limit]: the end, or that of a link's text
        self._limit = 1
        self._skips: list[tuple[int, int, str]] = []  # ends of links, as received, with gaps; the next on top
        # Where a mark has left a hole: what goes there between two words, and since where.
        self._gap, self._gap_at = "", 0

    @property
    def held_chars(self) -> int:
        """Characters received of which nothing is decided yet."""
        return len(self._text) - self._at

    @property
    def mapped_stretches(self) -> int:
        """What is kept to know where clean text came from."""
        return len(self._map)

    def source(self, offset: int) -> int:
        """Where the character at `offset` of the clean text came from, in the text as received."""
        return self._map.source(offset)

    def source_end(self, offset: int) -> int:
        """For the exclusive end of a span: right behind what gave the character at `offset - 1`."""
        return self._map.source_end(offset)

    def forget(self, offset: int) -> None:
        """No offset of the clean text below this one will be asked for again."""
        self._map.forget(offset)

    @abstractmethod
    def _step(self) -> None:
        """Takes one thing from `text[at:limit]`, or raises `NeedsMoreError` and leaves everything as it is."""

    @abstractmethod
    def _left_inner_text(self) -> None:
        """A link's text has ended, and so has whatever was going on in it."""

    def _run(self, *, final: bool) -> str:
        try:
            while True:
                end = self._skips[-1][0] - self._origin if self._skips else len(self._text)
                self._limit, self._final = end, final or bool(self._skips)
                if self._at < end:
                    self._step()
                elif self._skips:
                    _, end, gap = self._skips.pop()
                    self._drop(end - self._origin, gap)
                    self._left_inner_text()
                else:
                    break
        except NeedsMoreError:
            pass
        done = self._at - 1
        self._text, self._origin, self._at = self._text[done:], self._origin + done, 1
        clean = "".join(self._out)
        self._out.clear()
        return clean

    def _look(self, pattern: re.Pattern[str], head: re.Pattern[str], max_chars: int) -> re.Match[str] | None:
        """`pattern` here, in at most `max_chars`; raises where only its beginning, `head`, has come."""
        end = min(self._limit, self._at + max_chars)
        if head.match(self._text, self._at, end):
            if end == self._at + max_chars:
                return None
            self._want_more()
        return pattern.match(self._text, self._at, end)

    def _want_more(self) -> None:
        if not self._final:
            raise NeedsMoreError

    def _char(self, at: int) -> str:
        """The character there, or "" where the text has ended."""
        if at < self._limit:
            return self._text[at]
        self._want_more()
        return ""

    def _run_end(self, char: str) -> int:
        end = self._at
        while end < self._limit and self._text[end] == char:
            end += 1
        return end

    def _pass(self, end: int) -> None:
        """The text up to `end` is to be spoken as it is."""
        if self._gap and self._at < end and self._fill_gap(self._text[self._at]):
            self._at += 1
        if self._at < end:
            self._out.append(self._text[self._at : end])
            self._map.copied(self._origin + self._at, end - self._at)
            self._last = self._text[end - 1]
            self._at = end

    def _replace(self, end: int, spoken: str) -> None:
        """`spoken` stands for the text up to `end`."""
        self._out.append(spoken)
        self._map.replaced(self._origin + self._at, self._origin + end, len(spoken))
        self._last = spoken[-1:] or self._last
        self._gap = ""
        self._at = end

    def _drop(self, end: int, gap: str = "") -> None:
        if gap and self._gap not in ("\n", ", "):
            self._gap_at = self._gap_at if self._gap else self._origin + self._at
            self._gap = gap
        self._at = end

    def _fill_gap(self, first: str) -> bool:
        """Keeps `first` apart where a mark has done so.  Returns whether it is a space too many."""
        gap, self._gap = self._gap, ""
        last = self._last
        if gap in ("\n", ", ") and last not in ("", "\n"):
            if first not in "\r\n":
                self._insert(gap)
        elif not last or last.isspace():
            return first == " "
        elif gap == "digits":
            if is_word(last) and is_word(first) and (last.isdigit() or first.isdigit()):
                self._insert(" ")
        elif not first.isspace() and first not in _CLOSERS and last not in _OPENERS:
            self._insert(" ")
        return False

    def _insert(self, gap: str) -> None:
        self._out.append(gap)
        self._map.replaced(self._gap_at, self._origin + self._at, len(gap))
        self._last = gap[-1]


def is_word(char: str) -> bool:
    """Whether it makes one word with a neighbour of its kind."""
    return char.isalnum() and not marks.UNSPACED.match(char)
