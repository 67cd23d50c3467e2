"""Code: inline, between backticks, and in fenced blocks."""

import re
from functools import cache, partial

from realtime_tts.text import patterns
from realtime_tts.text.markup.line import Line
from realtime_tts.text.scanner import NeedsMoreError, TextScanner


class Code:
    def __init__(self, scanner: TextScanner, line: Line, *, drop_blocks: bool) -> None:
        """Without `drop_blocks` only the fences of a block are dropped."""
        self._scanner = scanner
        self._line = line
        self._drop_blocks = drop_blocks
        self._ticks = 0  # of the inline code that is open

    def on_tick(self) -> None:
        scanner, line = self._scanner, self._line
        end = scanner.run_end("`")
        ticks = end - scanner.at
        if scanner.text[scanner.at - 1] == "`":
            scanner.drop(end)
            return
        if ticks < patterns.MAX_TICKS:
            scanner.char(end)
        else:  # a run without end: what follows of it is dropped as such
            ticks, end = patterns.MAX_TICKS, scanner.at + patterns.MAX_TICKS
        if line.mode == "code" and ticks == self._ticks:
            line.mode = "plain"
        elif (
            3 <= ticks < patterns.MAX_TICKS
            and not scanner.in_link_text
            and self._open(patterns.FENCE_INLINE, patterns.FENCE_INLINE_HEAD)
        ):
            return
        elif line.mode == "plain":
            line.mode, self._ticks = "code", ticks
        scanner.drop(end)

    def open_block(self) -> bool:
        """Opens a block if a line starts here with a fence."""
        return self._open(patterns.FENCE, patterns.FENCE_HEAD)

    def _open(self, fence: re.Pattern[str], head: re.Pattern[str]) -> bool:
        found = self._scanner.look(fence, head, patterns.MAX_FENCE_CHARS)
        if found is None:
            return False
        closing, closing_head = _closing_fence(found[1][0], len(found[1]))
        self._scanner.enter(partial(self._step_block, closing, closing_head))
        self._line.at_start = False
        self._line.mode = "plain"
        self._scanner.drop(found.end(), "\n")
        return True

    def _step_block(self, closing: re.Pattern[str], closing_head: re.Pattern[str]) -> None:
        """Continues in a block, up to its end."""
        scanner = self._scanner
        decide = scanner.drop if self._drop_blocks else scanner.keep
        found = closing.search(scanner.text, scanner.at, scanner.limit)
        if found and (found.end() < scanner.limit or scanner.final):
            decide(found.start())
            scanner.drop(found.end(), "\n")
            scanner.leave()
            return
        held = None if scanner.final else closing_head.search(scanner.text, scanner.at, scanner.limit)
        decide(held.start() if held else scanner.limit)
        if held:
            raise NeedsMoreError


@cache
def _closing_fence(char: str, count: int) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What closes a block of code, at the end of any line; and what may be the start of that."""
    run = rf"{char * count}{char}{{0,{100 - count}}}[ \t]{{0,20}}"
    return re.compile(rf"{run}(?=\r?\n|\Z)"), re.compile(rf"{char}{{1,100}}[ \t]{{0,20}}\r?\Z")
