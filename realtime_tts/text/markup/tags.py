"""Tags of HTML, XML and SSML, special tokens of models, comments, entities and `<https://…>`."""

import html
import re
from functools import partial

from realtime_tts.text import patterns
from realtime_tts.text.scanner import NeedsMoreError, TextScanner


class Tags:
    def __init__(self, scanner: TextScanner, *, drop_tags: bool) -> None:
        """Without `drop_tags` only the angle brackets around an address are dropped."""
        self._scanner = scanner
        self._drop_tags = drop_tags

    def on_angle(self) -> None:
        scanner = self._scanner
        if found := scanner.look(patterns.AUTO_LINK, patterns.AUTO_LINK_HEAD, patterns.MAX_AUTO_LINK_CHARS):
            scanner.drop_later(found.end() - 1, found.end(), " ")
            scanner.drop(scanner.at + 1)
        elif not self._drop_tags:
            scanner.keep(scanner.at + 1)
        elif scanner.text.startswith("<!--", scanner.at, scanner.limit):
            scanner.drop(scanner.at + 4, " ")
            scanner.enter(partial(self._step_unspoken, patterns.COMMENT_END))
        elif found := scanner.look(patterns.TAG, patterns.TAG_HEAD, patterns.MAX_TAG_CHARS):
            self._on_tag(found.group(), (found[1] or "").lower())
        else:
            scanner.keep(scanner.at + 1)

    def _on_tag(self, tag: str, name: str) -> None:
        if name in patterns.UNSPOKEN_TAGS and tag[1] != "/" and tag[-2] != "/":
            closing = re.compile(rf"</{re.escape(name)}\s{{0,8}}>", re.IGNORECASE)
            self._scanner.enter(partial(self._step_unspoken, closing))
        if name == "break":  # a pause, which the splitter reads
            self._scanner.keep(self._scanner.at + len(tag))
            return
        gap = "\n" if name in patterns.BLOCK_TAGS else "" if name in patterns.INLINE_TAGS else " "
        self._scanner.drop(self._scanner.at + len(tag), gap)

    def _step_unspoken(self, closing: re.Pattern[str]) -> None:
        """Drops the content of a comment, or of a tag whose content is not spoken."""
        scanner = self._scanner
        found = closing.search(scanner.text, scanner.at, scanner.limit)
        if found:
            scanner.drop(found.end(), " ")
            scanner.leave()
        elif scanner.in_link_text:
            scanner.drop(scanner.limit)
        else:
            # Also at a flush: half of the closing tag may have been received.
            scanner.drop(max(scanner.at, scanner.limit - patterns.MAX_CLOSING_TAG_CHARS))
            raise NeedsMoreError

    def on_entity(self) -> None:
        scanner = self._scanner
        found = scanner.look(patterns.ENTITY, patterns.ENTITY_HEAD, patterns.MAX_ENTITY_CHARS)
        spoken = html.unescape(found.group()) if found else "&"
        if found is None or spoken == found.group():
            scanner.keep(scanner.at + 1)
        else:
            scanner.replace(found.end(), spoken)
