"""Markdown of whole lines: headings, quotes, bullets, rules, tables."""

from realtime_tts.text import patterns
from realtime_tts.text.markup.code import Code
from realtime_tts.text.markup.line import Line
from realtime_tts.text.scanner import TextScanner


class Blocks:
    def __init__(self, scanner: TextScanner, line: Line, code: Code, *, markdown: bool) -> None:
        self._scanner = scanner
        self._line = line
        self._code = code
        self._markdown = markdown
        self._cell_from = 0  # length of the clean text when the table's cell started

    def on_line_end(self) -> None:
        self._scanner.keep(self._scanner.at + 1)
        self._line.at_start = True
        self._line.mode = "plain"
        self._line.star_open = False

    def on_line_start(self) -> None:
        scanner = self._scanner
        char = scanner.text[scanner.at]
        if char in " \t":
            scanner.keep(scanner.at + 1)
        elif not (char in "`~" and self._code.open_block()):
            self._line.at_start = self._markdown and self._drop_line_mark(char)

    def _drop_line_mark(self, char: str) -> bool:
        """Drops what is mark-up only at the start of a line.  Returns whether more of it may follow."""
        scanner = self._scanner
        if char == "#" and (found := scanner.look(patterns.HEADING, patterns.HEADING_HEAD, 8)):
            scanner.drop(found.end())
            self._line.mode = "heading"
            return False
        if char == ">":
            scanner.char(scanner.at + 1)
            if found := patterns.QUOTE.match(scanner.text, scanner.at, scanner.limit):
                scanner.drop(found.end())
            return found is not None
        if char in "-*_=" and (found := scanner.look(patterns.RULE, patterns.RULE_HEAD, patterns.MAX_RULE_CHARS)):
            scanner.drop(found.end())
            return False
        if char in "-:|" and (
            found := scanner.look(patterns.SEPARATOR_ROW, patterns.SEPARATOR_ROW_HEAD, patterns.MAX_RULE_CHARS)
        ):
            scanner.drop(found.end())
            return False
        if char in "-*+•‣◦" and (found := scanner.look(patterns.BULLET, patterns.BULLET_HEAD, 16)):
            scanner.drop(found.end())
            return True
        if char == "|":
            self._line.mode = "table"
            self._cell_from = scanner.offsets.length
        return False

    def on_cell_edge(self) -> None:
        scanner = self._scanner
        found = patterns.CELL_EDGE.match(scanner.text, scanner.at, scanner.limit)
        assert found is not None, "called where a cell's edge is"
        scanner.char(found.end())
        scanner.drop(found.end(), ", " if scanner.offsets.length > self._cell_from else "")
        self._cell_from = scanner.offsets.length

    def on_space(self) -> None:
        """In a table or a heading, before what may be its mark-up."""
        scanner = self._scanner
        if self._line.mode == "heading":
            found = patterns.HEADING_END.match(scanner.text, scanner.at, scanner.limit)
            if found is None or found.end() == scanner.limit:
                scanner.want_more()
            scanner.drop(found.end() if found else scanner.at + 1)
        elif patterns.CELL_EDGE.match(scanner.text, scanner.at, scanner.limit):
            self.on_cell_edge()
        else:
            scanner.want_more()
            scanner.keep(scanner.at + 1)
