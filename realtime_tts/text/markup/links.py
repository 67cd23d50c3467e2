"""Links, images and addresses: the text of a link is spoken, and of an address its host."""

import re

from realtime_tts.text import patterns
from realtime_tts.text.pauses import PAUSE
from realtime_tts.text.scanner import NeedsMoreError, TextScanner


class Links:
    def __init__(self, scanner: TextScanner) -> None:
        self._scanner = scanner

    def on_bang(self) -> None:
        scanner = self._scanner
        if scanner.char(scanner.at + 1) != "[" or not self._open_link(scanner.at + 1):
            scanner.keep(scanner.at + 1)

    def on_bracket(self) -> None:
        scanner = self._scanner
        if not self._open_link(scanner.at):
            scanner.keep(scanner.at + 1)

    def _open_link(self, bracket: int) -> bool:
        """Drops up to the bracket if it opens a link; the end of the link is dropped after its text."""
        scanner = self._scanner
        found = scanner.scan(patterns.LINK_TEXT, bracket, patterns.MAX_LINK_TEXT_CHARS)
        if found is None or scanner.char(found.end()) != "]":
            return False
        text_end, inner = found.end(), found[1]
        if PAUSE.fullmatch(f"[{inner}]"):
            return False
        following = scanner.char(text_end + 1)
        target = None
        if inner.startswith("^") and not re.search(r"\s", inner):  # a footnote
            scanner.drop(text_end + 1, " ")
            return True
        if following == "(":
            target = scanner.scan(patterns.LINK_TARGET, text_end + 1, patterns.MAX_LINK_TARGET_CHARS)
        elif following == "[" and not inner.isdigit():
            target = scanner.scan(patterns.LINK_REFERENCE, text_end + 1, patterns.MAX_LINK_REFERENCE_CHARS)
        if target is None or scanner.char(target.end()) != {"(": ")", "[": "]"}[following]:
            return False
        target_end = target.end() + 1
        scanner.drop(bracket + 1)
        scanner.drop_later(text_end, target_end)
        return True

    def on_url(self) -> None:
        scanner = self._scanner
        host = self._host()
        if host is None:
            scanner.keep(scanner.at + 1)
            return
        scanner.drop(host.start())
        scanner.keep(host.start() + len(host.group().rstrip(patterns.URL_LAST)))
        scanner.enter(self._step_url, leave_at_text_end=True)

    def _host(self) -> re.Match[str] | None:
        """The host of the address that starts here.  Raises `NeedsMoreError` until all of it was received."""
        scanner = self._scanner
        end = min(scanner.limit, scanner.at + patterns.MAX_URL_HEAD_CHARS)
        scheme = patterns.SCHEME.match(scanner.text, scanner.at, end)
        if scheme is None and not _begins_scheme(scanner.text[scanner.at : end]):
            return None  # such as "hww."
        authority = patterns.AUTHORITY.match(scanner.text, scheme.end(), end) if scheme else None
        if authority is None or authority.end() == end:
            if end == scanner.at + patterns.MAX_URL_HEAD_CHARS:
                return None  # no host is as long as that
            scanner.want_more()
        end = authority.end() if authority else scanner.at
        address = patterns.URL.match(scanner.text, scanner.at, end)
        host = patterns.HOST.match(scanner.text, address.end(), end) if address else None
        return host if host and host.group().rstrip(patterns.URL_LAST) else None

    def _step_url(self) -> None:
        """Drops what follows the host, but for the punctuation of the sentence around the address."""
        scanner = self._scanner
        rest = patterns.URL_REST.match(scanner.text, scanner.at, scanner.limit)
        assert rest is not None, "the pattern matches an empty text"
        own_end = scanner.at + len(rest.group().rstrip(patterns.URL_LAST))
        scanner.drop(max(own_end, rest.end() - patterns.MAX_URL_LAST_CHARS))
        if rest.end() == scanner.limit and not scanner.final:
            raise NeedsMoreError
        scanner.leave()


def _begins_scheme(text: str) -> bool:
    """Whether all of it may be the beginning of a scheme."""
    return any(scheme.startswith(text.lower()) for scheme in patterns.SCHEMES)
