"""Word timestamps: start and end of every word in the sound, from the model's duration of each phoneme."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from realtime_tts.engine.api import Word
from realtime_tts.engine.models.kokoro.frames import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME
from realtime_tts.engine.models.kokoro.phonemes import PAUSES, Piece

_WORD = re.compile(r"\S+")


class WordTimestamps:
    """The times of one request's words, which are separated by whitespace in its text.

    A word's times are known once the piece that ends it is computed.  A word without a sound (a picture, a dash) has
    the time of its pause, or no duration at the end of the word before it.
    """

    def __init__(self, text: str, pieces: Sequence[Piece]) -> None:
        self._spans = [match.span() for match in _WORD.finditer(text)]
        self._ends = [end for _, end in self._spans]
        self._words_in = [[self._word_at(origin) for origin in piece.phonemes.sources] for piece in pieces]
        self._pieces = pieces
        self._sounds: dict[int, tuple[float, float]] = {}
        self._pauses: dict[int, tuple[float, float]] = {}
        self._piece = 0
        self._known_words = 0
        self._known_until = 0.0
        self._frames = 0

    def add_piece(self, durations: Sequence[int], frames: int) -> tuple[Word, ...]:
        """The words that the next piece completes.

        `durations` are the frames of each of its phonemes and of the pads around them; `frames` is how many it has
        without its leading silence.
        """
        skipped = sum(durations) - frames
        edges = [max(0, edge - skipped) for edge in accumulate(durations)]
        words, symbols = self._words_in[self._piece], self._pieces[self._piece].phonemes.text
        for word, symbol, (start, end) in zip(words, symbols, _spans(symbols, edges), strict=True):
            if symbol != " ":
                times = self._pauses if symbol in PAUSES else self._sounds
                times[word] = (times.get(word, (self._frames + start,))[0], self._frames + end)
        self._frames += frames
        self._piece += 1
        following = self._words_in[self._piece : self._piece + 1]
        return self._words_before(following[0][0] if following else len(self._spans))

    def _word_at(self, origin: int) -> int:
        """The word of that character; for a space, the word after it."""
        return min(bisect_right(self._ends, origin), len(self._ends) - 1)

    def _words_before(self, until: int) -> tuple[Word, ...]:
        known = []
        while self._known_words < until:
            start, end = self._time_of(self._known_words)
            known.append(Word(*self._spans[self._known_words], _seconds(start), _seconds(end)))
            self._known_words, self._known_until = self._known_words + 1, end
        return tuple(known)

    def _time_of(self, word: int) -> tuple[float, float]:
        no_duration = (self._known_until, self._known_until)
        return self._sounds.get(word) or self._pauses.get(word) or no_duration


def _spans(symbols: str, edges: Sequence[int]) -> list[tuple[float, float]]:
    """Start and end of each symbol in the sound, in frames.

    A word's sound begins before the first frame of its first symbol: after a pause 38 ms before it (median of 44 in two
    voices, by the energy of the sound).  So words share the space between them, mostly two frames, and the first word
    begins a frame early, which leaves 5 ms.
    """
    joints = [float(edge) for edge in edges[: len(symbols) + 1]]
    joints[0] = max(0.0, joints[0] - 1)
    for index, symbol in enumerate(symbols):
        if symbol == " ":
            joints[index] = joints[index + 1] = (edges[index] + edges[index + 1]) / 2
    return list(pairwise(joints))


def _seconds(frames: float) -> float:
    return frames * SAMPLES_PER_FRAME / SAMPLE_RATE_HZ
