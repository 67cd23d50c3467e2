"""Clean-up of streamed text: Markdown, emoji, code, addresses and tags are not spoken.

A decision is made as soon as the text received so far determines it, and depends on nothing later.  So any slicing
of one text into messages gives the same speech, mark-up that is split between two messages is still mark-up, and prose
passes at once.  What may become mark-up waits, but not for long: an open "[", "<" or fence that is not closed within a
bounded length (`patterns`) is text.

An offset map leads from the clean text to the received text: what is reported to the client is in the characters that
the client sent.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from functools import cache

from realtime_tts.text import patterns
from realtime_tts.text.markup.blocks import Blocks
from realtime_tts.text.markup.code import Code
from realtime_tts.text.markup.emoji import Emoji
from realtime_tts.text.markup.emphasis import Emphasis
from realtime_tts.text.markup.line import Line
from realtime_tts.text.markup.links import Links
from realtime_tts.text.markup.tags import Tags
from realtime_tts.text.offsets import OffsetMap
from realtime_tts.text.scanner import TextScanner


class TextFilter(StrEnum):
    """What may be removed.

    - markdown: emphasis, headings, quotes, bullets (numbers of lists stay), rules, links and images (their text
      stays), tables (cells become a list with commas), backticks, escapes.  Runs of two or more `*` are always
      removed: "asterisk asterisk" is never spoken.  "5 * 3", "a*b", "snake_case", "C#", "#1" stay.
    - emoji: whole, with joiners, skin tones, flags and keycaps.  Digits and "©", "™" stay.
    - code: fenced blocks, unspoken; a line break stays.  Of inline code only the backticks are removed.
    - urls: an address is spoken as its host, without "www.": "example.com".  That says where it leads, and is what a
      person would read out; path, query, user and port are noise.  E-mail addresses stay.
    - tags: HTML, XML, SSML and models' special tokens; their content stays, but not that of `<think>` and its like,
      tool calls, scripts and styles, nor comments.  Entities are decoded.  "<3" and "a < b" stay.
    """

    MARKDOWN = "markdown"
    EMOJI = "emoji"
    CODE = "code"
    URLS = "urls"
    TAGS = "tags"


class TextCleaner:
    """The clean-up of one utterance's text.  Time is linear in it; at most some 2000 characters are held back."""

    def __init__(self, filters: frozenset[TextFilter]) -> None:
        self._markup = _Markup(filters) if filters else None

    def push(self, text: str) -> str:
        """Adds text; returns the clean text that is now certain."""
        markup = self._markup
        return text if markup is None else markup.scanner.run(text, markup.step)

    def flush(self) -> str:
        """What is held back, as if the text ended here.  More may follow: an open block of code stays open."""
        markup = self._markup
        return "" if markup is None else markup.scanner.run("", markup.step, final=True)

    @property
    def held_chars(self) -> int:
        """Characters received that are not decided yet."""
        return 0 if self._markup is None else self._markup.scanner.held_chars

    def source(self, offset: int) -> int:
        """Where the character at `offset` of the clean text came from, in the text as received."""
        return offset if self._markup is None else self._markup.scanner.offsets.source(offset)

    def source_end(self, offset: int) -> int:
        """For the exclusive end of a span: the end of what became the character at `offset - 1`."""
        return offset if self._markup is None else self._markup.scanner.offsets.source_end(offset)

    def offsets_of(self, start: int, end: int) -> OffsetMap:
        """The offset map of the clean text's characters `[start, end)`.  It remains valid when they are forgotten."""
        if self._markup is not None:
            return self._markup.scanner.offsets.part(start, end)
        offsets = OffsetMap(start)
        offsets.append_copy(start, end - start)
        return offsets

    def forget(self, offset: int) -> None:
        """Frees the memory of what precedes `offset` of the clean text, which is not looked up afterwards."""
        if self._markup is not None:
            self._markup.scanner.offsets.forget(offset)


class _Markup:
    """The kinds of mark-up, each with the characters that may start it."""

    def __init__(self, filters: frozenset[TextFilter]) -> None:
        self._filters = filters
        markdown = TextFilter.MARKDOWN in filters
        drops_code = TextFilter.CODE in filters
        self.scanner = TextScanner()
        self._line = Line(at_start=markdown or drops_code)
        self._emoji = Emoji(self.scanner, enabled=TextFilter.EMOJI in filters)
        self._code = Code(self.scanner, self._line, drop_blocks=drops_code)
        self._blocks = Blocks(self.scanner, self._line, self._code, markdown=markdown)
        self._links = Links(self.scanner)
        self._tags = Tags(self.scanner, drop_tags=TextFilter.TAGS in filters)
        self._handlers = self._make_handlers(markdown=markdown)

    def _make_handlers(self, *, markdown: bool) -> dict[str, Callable[[], None]]:
        blocks, links = self._blocks, self._links
        handlers: dict[str, Callable[[], None]] = {"\n": blocks.on_line_end, "\r": blocks.on_line_end}
        if markdown:
            emphasis = Emphasis(self.scanner, self._line, self._emoji)
            handlers |= {"*": emphasis.on_star, "_": emphasis.on_underscore, "~": emphasis.on_tilde}
            handlers |= {"\\": emphasis.on_escape, "[": links.on_bracket, "!": links.on_bang}
            handlers |= {"|": blocks.on_cell_edge, " ": blocks.on_space, "\t": blocks.on_space}
        if markdown or TextFilter.CODE in self._filters:
            handlers["`"] = self._code.on_tick
        handlers |= {"<": self._tags.on_angle, "&": self._tags.on_entity}
        handlers |= dict.fromkeys("hHfFwW", links.on_url)
        return handlers

    def step(self) -> None:
        """Keeps prose up to what may be mark-up, and lets that kind of mark-up decide."""
        scanner, line = self.scanner, self._line
        if line.at_start:
            self._blocks.on_line_start()
            return
        found = _special(self._filters, line.mode).search(scanner.text, scanner.at, scanner.limit)
        scanner.keep(found.start() if found else scanner.limit)
        if found:
            self._handlers.get(scanner.text[scanner.at], self._emoji.on_picture)()


@cache
def _special(filters: frozenset[TextFilter], mode: str) -> re.Pattern[str]:
    """The first character of anything that may be mark-up.

    One class of characters first, which lets `re` skip prose fast; then, for some, what must follow.
    """
    always = ""
    guarded: list[tuple[str, str]] = []
    markdown = TextFilter.MARKDOWN in filters
    if markdown or TextFilter.CODE in filters:
        always += "`\\n\\r"
    if mode == "code":
        guarded.append(("*", r"(?=\*|\Z)|(?<=\*\*)"))
    elif markdown:
        always += r"\\*_~\["
        guarded.append(("!", r"(?=\[|\Z)"))
    if mode == "table":
        always += "|"
        guarded.append((r" \t", r"(?=[ \t]{0,63}(?:\||\Z))"))
    elif mode == "heading":
        guarded.append((r" \t", r"(?=[ \t]{0,7}#{0,6}[ \t]{0,8}(?:[\r\n]|\Z))"))
    if TextFilter.EMOJI in filters:
        always += patterns.PICTURES
        guarded.append((patterns.TEXT_PICTURES, r"(?=\ufe0f|\Z)"))
        guarded.append(("0-9#*", r"(?=\ufe0f?(?:\u20e3|\Z))"))
        guarded.append(("\ud83c-\ud83e", "(?=[\udc00-\udfff]|\\Z)"))
    if mode != "code":
        if TextFilter.URLS in filters:
            guarded.append(("hHfFwW", patterns.URL_AHEAD))
        if TextFilter.TAGS in filters:
            guarded.append(("<", r"(?=[A-Za-z/!?|]|\Z)"))
            guarded.append(("&", r"(?=[A-Za-z#]|\Z)"))
        elif not filters.isdisjoint((TextFilter.MARKDOWN, TextFilter.URLS)):
            guarded.append(("<", r"(?=[A-Za-z]|\Z)"))
    conditions = [f"(?<=[{always}])"] if always else []
    conditions += [f"(?<=[{chars}])(?:{condition})" for chars, condition in guarded]
    return re.compile(f"[{always}{''.join(chars for chars, _ in guarded)}](?:{'|'.join(conditions)})")
