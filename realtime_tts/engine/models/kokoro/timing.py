"""When is each word heard?  The model decides how long every phoneme lasts; this adds them up to the words' times."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from realtime_tts.engine.api import Word
from realtime_tts.engine.models.kokoro.frames import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME
from realtime_tts.engine.models.kokoro.phonemes import PAUSES, Piece

_WORD = re.compile(r"\S+")


class WordClock:
    """The times of one request's words, which its text parts by spaces.

    A word is known once the piece that ends it is read.  One without a sound (a picture, a dash) has the time of its
    pause, or none where the word before it ends.
    """

    def __init__(self, text: str, pieces: Sequence[Piece]) -> None:
        self._spans = [match.span() for match in _WORD.finditer(text)]
        self._ends = [end for _, end in self._spans]
        self._words_in = [[self._word_at(origin) for origin in piece.phonemes.sources] for piece in pieces]
        self._pieces = pieces
        self._heard: dict[int, tuple[float, float]] = {}
        self._paused: dict[int, tuple[float, float]] = {}
        self._piece = 0
        self._told = 0
        self._told_until = 0.0
        self._frames = 0

    def read(self, durations: Sequence[int], frames: int) -> tuple[Word, ...]:
        """The words that the next piece completes.

        `durations` are frames for each of its phonemes and the pads around them; `frames` is how many it has left
        without its leading silence.
        """
        skipped = sum(durations) - frames
        edges = [max(0, edge - skipped) for edge in accumulate(durations)]
        words, symbols = self._words_in[self._piece], self._pieces[self._piece].phonemes.text
        for word, symbol, (start, end) in zip(words, symbols, _spans(symbols, edges), strict=True):
            if symbol != " ":
                times = self._paused if symbol in PAUSES else self._heard
                times[word] = (times.get(word, (self._frames + start,))[0], self._frames + end)
        self._frames += frames
        self._piece += 1
        following = self._words_in[self._piece : self._piece + 1]
        return self._tell(following[0][0] if following else len(self._spans))

    def _word_at(self, origin: int) -> int:
        """The word of that character; a space's is the next one."""
        return min(bisect_right(self._ends, origin), len(self._ends) - 1)

    def _tell(self, until: int) -> tuple[Word, ...]:
        known = []
        while self._told < until:
            start, end = self._time_of(self._told)
            known.append(Word(*self._spans[self._told], _seconds(start), _seconds(end)))
            self._told, self._told_until = self._told + 1, end
        return tuple(known)

    def _time_of(self, word: int) -> tuple[float, float]:
        nothing = (self._told_until, self._told_until)
        return self._heard.get(word) or self._paused.get(word) or nothing


def _spans(symbols: str, edges: Sequence[int]) -> list[tuple[float, float]]:
    """From where to where each symbol is heard.

    A word is heard before its first symbol's turn comes: after a pause by 38 ms (median of 44 in two voices, by the
    energy of the sound).  So words share the space between them, mostly two frames, and the first begins a frame early:
    that leaves 5 ms.
    """
    joints = [float(edge) for edge in edges[: len(symbols) + 1]]
    joints[0] = max(0.0, joints[0] - 1)
    for index, symbol in enumerate(symbols):
        if symbol == " ":
            joints[index] = joints[index + 1] = (edges[index] + edges[index + 1]) / 2
    return list(pairwise(joints))


def _seconds(frames: float) -> float:
    return frames * SAMPLES_PER_FRAME / SAMPLE_RATE_HZ
