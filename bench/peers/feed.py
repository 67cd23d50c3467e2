"""How text reaches a listener's client: all at once, or as a language model writes it."""

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from bench.listeners import Stopwatch
from realtime_tts.text.splitter import SentenceSplitter

# Five letters with the space before them: about 1.3 pieces an English word, as language models have it.
_TOKEN = re.compile(r"\s*\S{1,5}|\s+")


def tokens(text: str) -> list[str]:
    """Pieces that joined are the text again."""
    return _TOKEN.findall(text)


@dataclass(frozen=True, slots=True)
class Feed:
    """One utterance's text, from `began_s` on; `tokens_per_s` is None where all of it is there at once."""

    text: str
    began_s: float
    tokens_per_s: float | None = None

    async def pieces(self, watch: Stopwatch) -> AsyncGenerator[str, None]:
        """Each as soon as it is written; one that is asked for late has been waiting."""
        if self.tokens_per_s is None:
            yield self.text
            return
        for number, token in enumerate(tokens(self.text)):
            await watch.sleep_until(self.began_s + number / self.tokens_per_s)
            yield token

    async def sentences(self, watch: Stopwatch) -> AsyncGenerator[str, None]:
        """For a server that takes no text in pieces: whole sentences, each once its end is sure, by our own rules."""
        splitter = SentenceSplitter()
        async for piece in self.pieces(watch):
            for sentence in splitter.push(piece):
                yield sentence.text
        for sentence in splitter.finish():
            yield sentence.text
