"""Input text of a listener: complete at once, or token by token as a language model writes it."""

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from bench.listeners import Stopwatch
from realtime_tts.text.splitter import SentenceSplitter

# Up to five letters with the preceding space: about 1.3 pieces per English word, as in language models.
_TOKEN = re.compile(r"\s*\S{1,5}|\s+")


def tokens(text: str) -> list[str]:
    """Pieces that concatenate to the text."""
    return _TOKEN.findall(text)


@dataclass(frozen=True, slots=True)
class TextSource:
    """The text of one utterance, from `start_s`; `tokens_per_s` is None if it is complete at once."""

    text: str
    start_s: float
    tokens_per_s: float | None = None

    async def pieces(self, watch: Stopwatch) -> AsyncGenerator[str, None]:
        """Each piece when it is written, or at once if that time has passed."""
        if self.tokens_per_s is None:
            yield self.text
            return
        for number, token in enumerate(tokens(self.text)):
            await watch.sleep_until(self.start_s + number / self.tokens_per_s)
            yield token

    async def sentences(self, watch: Stopwatch) -> AsyncGenerator[str, None]:
        """For servers without streaming input: whole sentences by our own rules, each when its end is certain."""
        splitter = SentenceSplitter()
        async for piece in self.pieces(watch):
            for sentence in splitter.push(piece):
                yield sentence.text
        for sentence in splitter.finish():
            yield sentence.text
