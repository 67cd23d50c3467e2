"""Markdown inside a line: emphasis, strikethrough, escapes."""

from realtime_tts.text import patterns
from realtime_tts.text.markup.emoji import Emoji
from realtime_tts.text.markup.line import Line
from realtime_tts.text.scanner import TextScanner
from realtime_tts.text.unicode import is_word


class Emphasis:
    def __init__(self, scanner: TextScanner, line: Line, emoji: Emoji) -> None:
        self._scanner = scanner
        self._line = line
        self._emoji = emoji

    def on_star(self) -> None:
        if self._emoji.drop_picture():
            return
        scanner = self._scanner
        end = scanner.run_end("*")
        before = scanner.text[scanner.at - 1]
        if before == "*" or end - scanner.at > 1:
            scanner.drop(max(end - 1, scanner.at + 1), "digits")  # the last may be a keycap's
        elif self._is_sign(before, scanner.char(end)):
            scanner.keep(end)
        else:
            scanner.drop(end)

    def _is_sign(self, before: str, after: str) -> bool:
        """Whether one star is a sign ("5 * 3", "a*b"); else it opens or closes emphasis."""
        line = self._line
        if line.mode == "code":
            return True
        if before.isspace() or not after or after.isspace():
            line.star_open = bool(after) and not after.isspace()
            return before.isspace() and after.isspace()
        if line.star_open:
            line.star_open = before.isdigit() and after.isdigit()
            return line.star_open
        if (is_word(before) or before in ")]") and (is_word(after) or after in "([-+√"):
            return True
        line.star_open = not is_word(before)
        return False

    def on_underscore(self) -> None:
        scanner = self._scanner
        end = scanner.run_end("_")
        before = scanner.text[scanner.at - 1]
        if before == "_" or end - scanner.at > 3:
            scanner.drop(end, "digits")
        elif is_word(before) and is_word(scanner.char(end)):
            scanner.keep(end)
        else:
            scanner.char(end)
            scanner.drop(end, "digits")

    def on_tilde(self) -> None:
        scanner = self._scanner
        end = scanner.run_end("~")
        if scanner.text[scanner.at - 1] == "~" or end - scanner.at > 1:
            scanner.drop(end)
        else:
            scanner.char(end)
            scanner.keep(end)

    def on_escape(self) -> None:
        scanner = self._scanner
        following = scanner.char(scanner.at + 1)
        if following == "\n":
            scanner.drop(scanner.at + 1)
        elif following in patterns.ESCAPABLE:
            scanner.drop(scanner.at + 1)
            scanner.keep(scanner.at + 1)
        else:
            scanner.keep(scanner.at + 1)
