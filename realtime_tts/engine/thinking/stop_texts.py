"""Stop texts: an answer ends before the first of them, which may be divided over several tokens.  Sans-I/O."""

from collections.abc import Sequence


class StopTexts:
    """Holds back the end of a text while it may be the beginning of a stop text."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = tuple(text for text in texts if text)
        self._held = ""
        self.found = False

    def push(self, text: str) -> str:
        """The text that can be sent now.  After a stop text was `found` there is none."""
        if self.found:
            return ""
        held = self._held + text
        if found := [at for stop in self._texts if (at := held.find(stop)) >= 0]:
            self.found, self._held = True, ""
            return held[: min(found)]
        kept = max((_overlap(held, stop) for stop in self._texts), default=0)
        self._held = held[len(held) - kept :]
        return held[: len(held) - kept]

    def flush(self) -> str:
        """The rest, at the end of the answer."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """The longest end of `text` that is a beginning of `stop`."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
