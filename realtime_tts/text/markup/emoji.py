"""Emoji, whole: with joiners, skin tones, flags and keycaps."""

from realtime_tts.text import patterns
from realtime_tts.text.scanner import TextScanner


class Emoji:
    def __init__(self, scanner: TextScanner, *, enabled: bool) -> None:
        self._scanner = scanner
        self._enabled = enabled

    def drop_picture(self) -> bool:
        """Drops the picture that is here, if there is one."""
        if not self._enabled:
            return False
        found = self._scanner.look(patterns.EMOJI, patterns.EMOJI_HEAD, 3)
        if found is None:
            return False
        self._scanner.drop(found.end(), " ")
        self._scanner.enter(self._step_picture, leave_at_text_end=True)
        return True

    def on_picture(self) -> None:
        if not self.drop_picture():
            self._scanner.keep(self._scanner.at + 1)

    def _step_picture(self) -> None:
        """Drops what belongs to the last picture."""
        scanner = self._scanner
        if found := patterns.EMOJI_MORE.match(scanner.text, scanner.at, scanner.limit):
            scanner.drop(found.end())
            return
        if scanner.text[scanner.at] == "\udb40":
            scanner.char(scanner.at + 1)
        scanner.leave()
