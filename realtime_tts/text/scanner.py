"""Scanner of streamed text: what is not decided yet, what is kept, dropped or replaced, and where it came from."""

import re
from collections.abc import Callable

from realtime_tts.text.offsets import OffsetMap
from realtime_tts.text.unicode import is_word

_CLOSERS = ".,;:!?…)]}»”’。，、！？；：）」』"
_OPENERS = "([{«“‘（「『"


class NeedsMoreError(Exception):
    """The next decision depends on text that has not been received."""


class TextScanner:
    """The received text that is not decided yet, and the clean text that was decided.

    The kinds of mark-up (`markup/`) look at `text[at:limit]`, and `keep`, `replace` or `drop` the start of it.
    """

    def __init__(self) -> None:
        self.offsets = OffsetMap()
        self.text, self.at = "\n", 1
        """text[0] is context: the character received before text[1]."""
        self.limit = 1
        self.final = False
        """Nothing follows text[limit]: the text ends there, or the text of a link."""
        self.inside: Callable[[], None] | None = None
        """The next step, inside of something that has started: an address, a block of code."""
        self._leave_at_text_end = False
        self._origin = -1  # text[1] was received at origin + 1
        self._out: list[str] = []
        self._last = ""  # character of the clean text
        self._skips: list[tuple[int, int, str]] = []  # ends of links, as received, with gaps; the next on top
        # Where mark-up was dropped: what goes there between two words, and since where.
        self._gap, self._gap_at = "", 0

    @property
    def held_chars(self) -> int:
        """Characters received that are not decided yet."""
        return len(self.text) - self.at

    @property
    def in_link_text(self) -> bool:
        return bool(self._skips)

    def enter(self, step: Callable[[], None], *, leave_at_text_end: bool = False) -> None:
        """Until `leave`, or else the end of a link's text, or of all text, every step is `step`."""
        self.inside = step
        self._leave_at_text_end = leave_at_text_end

    def leave(self) -> None:
        self.inside = None

    def run(self, text: str, step: Callable[[], None], *, final: bool = False) -> str:
        """Adds text; returns the clean text that is now certain.

        `step` decides the start of `text[at:limit]`, or raises `NeedsMoreError` and leaves everything as it is.
        `final`: as if the text ended here.
        """
        self.text += text
        try:
            while True:
                end = self._skips[-1][0] - self._origin if self._skips else len(self.text)
                self.limit, self.final = end, final or bool(self._skips)
                if self.at < end:
                    (self.inside or step)()
                elif self._skips:
                    _, end, gap = self._skips.pop()
                    self.drop(end - self._origin, gap)
                    self._end_text()
                else:
                    break
        except NeedsMoreError:
            pass
        if final:
            self._end_text()
        done = self.at - 1
        self.text, self._origin, self.at = self.text[done:], self._origin + done, 1
        clean = "".join(self._out)
        self._out.clear()
        return clean

    def _end_text(self) -> None:
        if self._leave_at_text_end:
            self.inside = None

    # -- Looking -------------------------------------------------------------------------------------------------------

    def look(self, pattern: re.Pattern[str], head: re.Pattern[str], max_chars: int) -> re.Match[str] | None:
        """`pattern` here, in at most `max_chars`.

        Raises `NeedsMoreError` where only the start of it, which `head` matches, was received.
        """
        end = min(self.limit, self.at + max_chars)
        if head.match(self.text, self.at, end):
            if end == self.at + max_chars:
                return None
            self.want_more()
        return pattern.match(self.text, self.at, end)

    def scan(self, pattern: re.Pattern[str], start: int, max_chars: int) -> re.Match[str] | None:
        """`pattern` from `start`, unless it reaches `max_chars`.

        Raises `NeedsMoreError` where it reaches the end of what was received.
        """
        end = min(self.limit, start + max_chars)
        found = pattern.match(self.text, start, end)
        if found is None or found.end() == start + max_chars:
            return None
        if found.end() == self.limit:
            self.want_more()
        return found

    def want_more(self) -> None:
        """Raises `NeedsMoreError`, unless the text ends here."""
        if not self.final:
            raise NeedsMoreError

    def char(self, at: int) -> str:
        """The character there, or "" where the text has ended."""
        if at < self.limit:
            return self.text[at]
        self.want_more()
        return ""

    def run_end(self, char: str) -> int:
        """The end of the run of `char` that starts here."""
        end = self.at
        while end < self.limit and self.text[end] == char:
            end += 1
        return end

    # -- Deciding ------------------------------------------------------------------------------------------------------

    def keep(self, end: int) -> None:
        """The text up to `end` is spoken as it is."""
        if self._gap and self.at < end and self._fill_gap(self.text[self.at]):
            self.at += 1
        if self.at < end:
            self._out.append(self.text[self.at : end])
            self.offsets.append_copy(self._origin + self.at, end - self.at)
            self._last = self.text[end - 1]
            self.at = end

    def replace(self, end: int, spoken: str) -> None:
        """`spoken` stands for the text up to `end`."""
        if self._gap and spoken:
            self._fill_gap(spoken[0])
        self._out.append(spoken)
        self.offsets.append_replacement(self._origin + self.at, self._origin + end, len(spoken))
        self._last = spoken[-1:] or self._last
        self._gap = ""
        self.at = end

    def drop(self, end: int, gap: str = "") -> None:
        """The text up to `end` is not spoken.

        `gap` keeps the words around it apart: " ", "\\n", ", ", or "digits" for a space beside a digit only.
        """
        if gap and self._gap not in ("\n", ", "):
            self._gap_at = self._gap_at if self._gap else self._origin + self.at
            self._gap = gap
        self.at = end

    def drop_later(self, start: int, end: int, gap: str = "") -> None:
        """The text from here to `start` is that of a link; `[start, end)` is dropped after it."""
        self._skips.append((self._origin + start, self._origin + end, gap))

    def _fill_gap(self, first: str) -> bool:
        """Keeps `first` apart from the last word if needed.  Returns whether `first` is a surplus space."""
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
        self.offsets.append_replacement(self._gap_at, self._origin + self.at, len(gap))
        self._last = gap[-1]
