"""What of a written text is to be spoken?  Takes out marks, pictures, code and tags, while the text is still coming.

A cleaner decides as soon as the text that has come leaves no doubt, and looks no further ahead than that.  So any
slicing of one text into messages gives the same speech, a mark cut in two is still a mark, and prose passes at once.
Whatever may yet become a mark waits, but not for long: an open "[", "<" or fence that is not closed within a bounded
length (`text_marks`) is taken for text.

Every character of the clean text knows where it came from, so what is reported to the client ("heard up to here")
is in the characters that the client sent.
"""

import html
import re
from collections.abc import Callable
from enum import StrEnum
from functools import cache

from realtime_tts.text import patterns as marks
from realtime_tts.text.scanner import NeedsMoreError, TextScanner, is_word


class TextFilter(StrEnum):
    """What may be taken out.

    - markdown: emphasis, headings, quotes, bullets (numbers of lists stay), rules, links and images (their text
      stays), tables (cells become a list with commas), backticks, escapes.  Runs of two or more `*` always go: nobody
      hears "asterisk asterisk".  "5 * 3", "a*b", "snake_case", "C#", "#1" stay.
    - emoji: whole, with joiners, skin tones, flags and keycaps.  Digits and "©", "™" stay.
    - code: fenced blocks, unspoken; a line break stays.  Of inline code only the backticks go.
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


class TextCleaner(TextScanner):
    """The clean-up of one utterance's text.  Time is linear in it; at most some 2000 characters are held back."""

    def __init__(self, filters: frozenset[TextFilter]) -> None:
        self._filters = filters
        self._markdown = TextFilter.MARKDOWN in filters
        super().__init__()
        self._line_start = not filters.isdisjoint((TextFilter.MARKDOWN, TextFilter.CODE))
        self._mode = "plain"  # or heading, table, code: up to the end of the line
        self._code_ticks = 0
        self._star_open = False
        self._cell_from = 0
        self._after_picture = False
        self._in_url = False  # behind a host
        self._unspoken_until: re.Pattern[str] | None = None
        self._fence: tuple[re.Pattern[str], re.Pattern[str]] | None = None
        self._handlers = self._make_handlers()

    def _make_handlers(self) -> dict[str, Callable[[], None]]:
        handlers: dict[str, Callable[[], None]] = {"\n": self._on_line_end, "\r": self._on_line_end}
        if self._markdown:
            handlers |= {"\\": self._on_escape, "*": self._on_star, "_": self._on_underscore, "~": self._on_tilde}
            handlers |= {"[": self._on_bracket, "!": self._on_bang, "|": self._on_cell_edge}
            handlers |= {" ": self._on_space, "\t": self._on_space}
        if self._markdown or TextFilter.CODE in self._filters:
            handlers["`"] = self._on_tick
        handlers |= {"<": self._on_angle, "&": self._on_entity}
        handlers |= dict.fromkeys("hHfFwW", self._on_url)
        return handlers

    def push(self, text: str) -> str:
        """Takes more of the text; returns what of the clean text has become sure."""
        if not self._filters:
            return text
        self._text += text
        return self._run(final=False)

    def flush(self) -> str:
        """What is held back, as if the text ended here.  It may go on: an open block of code stays open."""
        if not self._filters:
            return ""
        clean = self._run(final=True)
        self._after_picture = self._in_url = False
        return clean

    def source(self, offset: int) -> int:
        """Where the character at `offset` of the clean text came from, in the text as received."""
        return super().source(offset) if self._filters else offset

    def source_end(self, offset: int) -> int:
        """For the exclusive end of a span: right behind what gave the character at `offset - 1`."""
        return super().source_end(offset) if self._filters else offset

    # -- The loop ------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Takes one thing from the text, or raises and leaves everything as it is."""
        if self._unspoken_until is not None:
            self._skip_unspoken(self._unspoken_until)
        elif self._fence is not None:
            self._skip_code(*self._fence)
        elif self._in_url:
            self._skip_url()
        elif self._after_picture:
            self._skip_picture()
        elif self._line_start:
            self._on_line_start()
        else:
            found = _special(self._filters, self._mode).search(self._text, self._at, self._limit)
            self._pass(found.start() if found else self._limit)
            if found:
                self._handlers.get(self._text[self._at], self._on_picture)()

    def _left_inner_text(self) -> None:
        self._after_picture = self._in_url = False

    # -- Lines ---------------------------------------------------------------------------------------------------------

    def _on_line_end(self) -> None:
        self._pass(self._at + 1)
        self._line_start = True
        self._mode = "plain"
        self._star_open = False

    def _on_line_start(self) -> None:
        char = self._text[self._at]
        if char in " \t":
            self._pass(self._at + 1)
        elif not (char in "`~" and self._open_fence(marks.FENCE, marks.FENCE_HEAD)):
            self._line_start = self._markdown and self._on_line_mark(char)

    def _on_line_mark(self, char: str) -> bool:
        """Drops what only a line's beginning makes a mark.  Returns whether another may follow."""
        if char == "#" and (found := self._look(marks.HEADING, marks.HEADING_HEAD, 8)):
            self._drop(found.end())
            self._mode = "heading"
            return False
        if char == ">":
            self._char(self._at + 1)
            if found := marks.QUOTE.match(self._text, self._at, self._limit):
                self._drop(found.end())
            return found is not None
        if char in "-*_=" and (found := self._look(marks.RULE, marks.RULE_HEAD, marks.MAX_RULE_CHARS)):
            self._drop(found.end())
            return False
        if char in "-:|" and (found := self._look(marks.SEPARATOR_ROW, marks.SEPARATOR_ROW_HEAD, marks.MAX_RULE_CHARS)):
            self._drop(found.end())
            return False
        if char in "-*+•‣◦" and (found := self._look(marks.BULLET, marks.BULLET_HEAD, 16)):
            self._drop(found.end())
            return True
        if char == "|":
            self._mode = "table"
            self._cell_from = self._map.total
        return False

    def _on_cell_edge(self) -> None:
        found = marks.CELL_EDGE.match(self._text, self._at, self._limit)
        assert found is not None
        self._char(found.end())
        self._drop(found.end(), ", " if self._map.total > self._cell_from else "")
        self._cell_from = self._map.total

    def _on_space(self) -> None:
        """In a table or a heading, before what may be a mark."""
        if self._mode == "heading":
            found = marks.HEADING_END.match(self._text, self._at, self._limit)
            if found is None or found.end() == self._limit:
                self._want_more()
            self._drop(found.end() if found else self._at + 1)
        elif marks.CELL_EDGE.match(self._text, self._at, self._limit):
            self._on_cell_edge()
        else:
            self._want_more()
            self._pass(self._at + 1)

    # -- Emphasis ------------------------------------------------------------------------------------------------------

    def _on_star(self) -> None:
        if self._is_picture():
            return
        end = self._run_end("*")
        before = self._text[self._at - 1]
        if before == "*" or end - self._at > 1:
            self._drop(max(end - 1, self._at + 1), "digits")  # the last may be a keycap's
        elif self._star_stays(before, self._char(end)):
            self._pass(end)
        else:
            self._drop(end)

    def _star_stays(self, before: str, after: str) -> bool:
        """Whether one star is a sign ("5 * 3", "a*b"); else it opens or closes emphasis."""
        if self._mode == "code":
            return True
        if before.isspace() or not after or after.isspace():
            self._star_open = bool(after) and not after.isspace()
            return before.isspace() and after.isspace()
        if self._star_open:
            stays = before.isdigit() and after.isdigit()
            self._star_open = stays
            return stays
        if (is_word(before) or before in ")]") and (is_word(after) or after in "([-+√"):
            return True
        self._star_open = not is_word(before)
        return False

    def _on_underscore(self) -> None:
        end = self._run_end("_")
        before = self._text[self._at - 1]
        if before == "_" or end - self._at > 3:
            self._drop(end, "digits")
        elif is_word(before) and is_word(self._char(end)):
            self._pass(end)
        else:
            self._char(end)
            self._drop(end, "digits")

    def _on_tilde(self) -> None:
        end = self._run_end("~")
        if self._text[self._at - 1] == "~" or end - self._at > 1:
            self._drop(end)
        else:
            self._char(end)
            self._pass(end)

    def _on_escape(self) -> None:
        following = self._char(self._at + 1)
        if following == "\n":
            self._drop(self._at + 1)
        elif following in marks.ESCAPABLE:
            self._drop(self._at + 1)
            self._pass(self._at + 1)
        else:
            self._pass(self._at + 1)

    # -- Code ----------------------------------------------------------------------------------------------------------

    def _on_tick(self) -> None:
        end = self._run_end("`")
        ticks = end - self._at
        if self._text[self._at - 1] == "`":
            self._drop(end)
            return
        if ticks < marks.MAX_TICKS:
            self._char(end)
        else:  # a run without end: what follows of it is dropped as such
            ticks, end = marks.MAX_TICKS, self._at + marks.MAX_TICKS
        if self._mode == "code" and ticks == self._code_ticks:
            self._mode = "plain"
        elif (
            3 <= ticks < marks.MAX_TICKS
            and not self._skips
            and self._open_fence(marks.FENCE_INLINE, marks.FENCE_INLINE_HEAD)
        ):
            return
        elif self._mode == "plain":
            self._mode, self._code_ticks = "code", ticks
        self._drop(end)

    def _open_fence(self, pattern: re.Pattern[str], head: re.Pattern[str]) -> bool:
        found = self._look(pattern, head, marks.MAX_FENCE_CHARS)
        if found is None:
            return False
        self._fence = _fence_end(found[1][0], len(found[1]))
        self._line_start = False
        self._mode = "plain"
        self._drop(found.end(), "\n")
        return True

    def _skip_code(self, closing: re.Pattern[str], closing_head: re.Pattern[str]) -> None:
        pass_on = self._drop if TextFilter.CODE in self._filters else self._pass
        found = closing.search(self._text, self._at, self._limit)
        if found and (found.end() < self._limit or self._final):
            pass_on(found.start())
            self._drop(found.end(), "\n")
            self._fence = None
            return
        held = None if self._final else closing_head.search(self._text, self._at, self._limit)
        pass_on(held.start() if held else self._limit)
        if held:
            raise NeedsMoreError

    # -- Links and addresses -------------------------------------------------------------------------------------------

    def _on_bang(self) -> None:
        if self._char(self._at + 1) != "[" or not self._open_link(self._at + 1):
            self._pass(self._at + 1)

    def _on_bracket(self) -> None:
        if not self._open_link(self._at):
            self._pass(self._at + 1)

    def _open_link(self, bracket: int) -> bool:
        """Drops up to the bracket, if a link's text follows it; the link's end is dropped when it is reached."""
        found = self._scan(marks.LINK_TEXT, bracket, marks.MAX_LINK_TEXT_CHARS)
        if found is None or self._char(found.end()) != "]":
            return False
        text_end, inner = found.end(), found[1]
        following = self._char(text_end + 1)
        goal = None
        if inner.startswith("^") and not re.search(r"\s", inner):
            self._drop(text_end + 1, " ")
            return True
        if following == "(":
            goal = self._scan(marks.LINK_GOAL, text_end + 1, marks.MAX_LINK_GOAL_CHARS)
        elif following == "[" and not inner.isdigit():
            goal = self._scan(marks.LINK_REFERENCE, text_end + 1, 90)
        if goal is None or self._char(goal.end()) != {"(": ")", "[": "]"}[following]:
            return False
        self._drop(bracket + 1)
        self._skips.append((self._origin + text_end, self._origin + goal.end() + 1, ""))
        return True

    def _scan(self, pattern: re.Pattern[str], start: int, max_chars: int) -> re.Match[str] | None:
        """`pattern` from `start`, unless it reaches `max_chars`; raises where it reaches the end of what has come."""
        end = min(self._limit, start + max_chars)
        found = pattern.match(self._text, start, end)
        if found is None or found.end() == start + max_chars:
            return None
        if found.end() == self._limit:
            self._want_more()
        return found

    def _on_url(self) -> None:
        spoken = self._host()
        if spoken is None:
            self._pass(self._at + 1)
            return
        self._drop(spoken.start())
        self._pass(spoken.start() + len(spoken.group().rstrip(marks.URL_LAST)))
        self._in_url = True

    def _host(self) -> re.Match[str] | None:
        """The host of the address that begins here; raises until all of it has come."""
        end = min(self._limit, self._at + marks.MAX_URL_HEAD_CHARS)
        scheme = marks.SCHEME.match(self._text, self._at, end)
        authority = marks.AUTHORITY.match(self._text, scheme.end(), end) if scheme else None
        if authority is None or authority.end() == end:
            if end == self._at + marks.MAX_URL_HEAD_CHARS:
                return None  # no host is as long as that
            self._want_more()
        end = authority.end() if authority else self._at
        address = marks.URL.match(self._text, self._at, end)
        host = marks.HOST.match(self._text, address.end(), end) if address else None
        return host if host and host.group().rstrip(marks.URL_LAST) else None

    def _skip_url(self) -> None:
        rest = marks.URL_REST.match(self._text, self._at, self._limit)
        assert rest is not None
        own_end = self._at + len(rest.group().rstrip(marks.URL_LAST))
        if rest.end() == self._limit and not self._final:
            self._drop(max(own_end, rest.end() - marks.MAX_URL_LAST_CHARS))
            raise NeedsMoreError
        self._drop(max(own_end, rest.end() - marks.MAX_URL_LAST_CHARS))
        self._in_url = False

    # -- Tags ----------------------------------------------------------------------------------------------------------

    def _on_angle(self) -> None:
        if found := self._look(marks.AUTO_LINK, marks.AUTO_LINK_HEAD, marks.MAX_AUTO_LINK_CHARS):
            self._skips.append((self._origin + found.end() - 1, self._origin + found.end(), " "))
            self._drop(self._at + 1)
        elif TextFilter.TAGS not in self._filters:
            self._pass(self._at + 1)
        elif self._text.startswith("<!--", self._at, self._limit):
            self._drop(self._at + 4, " ")
            self._unspoken_until = marks.COMMENT_END
        elif found := self._look(marks.TAG, marks.TAG_HEAD, marks.MAX_TAG_CHARS):
            self._on_tag(found.group(), (found[1] or "").lower())
        else:
            self._pass(self._at + 1)

    def _on_tag(self, tag: str, name: str) -> None:
        if name in marks.UNSPOKEN_TAGS and tag[1] != "/" and tag[-2] != "/":
            self._unspoken_until = re.compile(rf"</{re.escape(name)}\s{{0,8}}>", re.IGNORECASE)
        gap = "\n" if name in marks.BLOCK_TAGS else "" if name in marks.INLINE_TAGS else " "
        self._drop(self._at + len(tag), gap)

    def _skip_unspoken(self, closing: re.Pattern[str]) -> None:
        found = closing.search(self._text, self._at, self._limit)
        if found:
            self._drop(found.end(), " ")
            self._unspoken_until = None
        elif self._skips:
            self._drop(self._limit)
        else:
            # Also at a flush: the closing tag may be half there.
            self._drop(max(self._at, self._limit - marks.MAX_CLOSING_TAG_CHARS))
            raise NeedsMoreError

    def _on_entity(self) -> None:
        found = self._look(marks.ENTITY, marks.ENTITY_HEAD, marks.MAX_ENTITY_CHARS)
        spoken = html.unescape(found.group()) if found else "&"
        if found is None or spoken == found.group():
            self._pass(self._at + 1)
        else:
            if self._gap and spoken:
                self._fill_gap(spoken[0])
            self._replace(found.end(), spoken)

    # -- Pictures ------------------------------------------------------------------------------------------------------

    def _is_picture(self) -> bool:
        """Drops the picture that is here, if it is one."""
        if TextFilter.EMOJI not in self._filters:
            return False
        found = self._look(marks.EMOJI, marks.EMOJI_HEAD, 3)
        if found is None:
            return False
        self._drop(found.end(), " ")
        self._after_picture = True
        return True

    def _on_picture(self) -> None:
        if not self._is_picture():
            self._pass(self._at + 1)

    def _skip_picture(self) -> None:
        if found := marks.EMOJI_MORE.match(self._text, self._at, self._limit):
            self._drop(found.end())
            return
        if self._text[self._at] == "\udb40":
            self._char(self._at + 1)
        self._after_picture = False


@cache
def _fence_end(char: str, count: int) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What closes a block of code, at the end of any line; and what may be that."""
    run = rf"{char * count}{char}{{0,{100 - count}}}[ \t]{{0,20}}"
    return re.compile(rf"{run}(?=\r?\n|\Z)"), re.compile(rf"{char}{{1,100}}[ \t]{{0,20}}\r?\Z")


@cache
def _special(filters: frozenset[TextFilter], mode: str) -> re.Pattern[str]:
    """The first character of whatever may be a mark.

    One class of characters first, which lets `re` run over prose at once; then, for some, what must follow.
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
        always += marks.PICTURES
        guarded.append((marks.TEXT_PICTURES, r"(?=\ufe0f|\Z)"))
        guarded.append(("0-9#*", r"(?=\ufe0f?(?:\u20e3|\Z))"))
        guarded.append(("\ud83c-\ud83e", "(?=[\udc00-\udfff]|\\Z)"))
    if mode != "code":
        if TextFilter.URLS in filters:
            guarded.append(("hHfFwW", marks.URL_AHEAD))
        if TextFilter.TAGS in filters:
            guarded.append(("<", r"(?=[A-Za-z/!?|]|\Z)"))
            guarded.append(("&", r"(?=[A-Za-z#]|\Z)"))
        elif not filters.isdisjoint((TextFilter.MARKDOWN, TextFilter.URLS)):
            guarded.append(("<", r"(?=[A-Za-z]|\Z)"))
    conditions = [f"(?<=[{always}])"] if always else []
    conditions += [f"(?<=[{chars}])(?:{condition})" for chars, condition in guarded]
    return re.compile(f"[{always}{''.join(chars for chars, _ in guarded)}](?:{'|'.join(conditions)})")
