"""Streaming time stretcher: faster or slower speech at the same pitch.

WSOLA (Verhelst and Roelands, "An overlap-add technique based on waveform similarity for high quality time-scale
modification of speech", ICASSP 1993).  Our own code, because the packages on PyPI under a permissive licence either
give other samples for other chunks or are not maintained.  By DNSMOS on ten sentences at tempos 0.7 to 2.2 its quality
equals that of a port of Sonic.
"""

import math
from fractions import Fraction

import numpy as np

from realtime_tts.audio.pcm import Float32, playable

MIN_TEMPO, MAX_TEMPO = 0.25, 4.0
BLOCK_S = 0.015
"""Each block of output is a fade from what would follow the last block to the most similar place in the input."""
SEARCH_S = 0.010
"""To either side of the target: together more than the longest period of a voice (60 Hz: 17 ms)."""
NEARNESS = 0.02
"""Penalty of the farthest place against the nearest, in correlation: silence and ties stay at the target."""


class StreamingStretcher:
    """`tempo` 2 halves the duration.  Any chunking gives the same floor(n / tempo + 1/2) samples."""

    def __init__(self, sample_rate_hz: int, tempo: float) -> None:
        if not MIN_TEMPO <= tempo <= MAX_TEMPO:
            raise ValueError(f"tempo must be from {MIN_TEMPO} to {MAX_TEMPO}, got {tempo}")
        self._tempo = tempo
        self._block = round(BLOCK_S * sample_rate_hz)
        self._search = round(SEARCH_S * sample_rate_hz)
        phase = (np.arange(self._block, dtype=np.float32) + 0.5) * np.float32(math.pi / self._block)
        self._fade_in = (0.5 - 0.5 * np.cos(phase)).astype(np.float32)
        self._penalty = (np.abs(np.arange(-self._search, self._search + 1)) * (NEARNESS / self._search)).astype(
            np.float32
        )
        self._input = np.zeros(0, np.float32)
        self._input_start = 0
        """Where in the sentence `_input` begins: what no later block needs is dropped."""
        self._next = 0
        """Where in the sentence the input continues after the last block."""
        self._blocks = 0
        self._samples_in = 0
        self._samples_out = 0

    def push(self, samples: Float32) -> Float32:
        self._samples_in += len(samples)
        # Cleaned first: a NaN would make every comparison with it meaningless.
        self._input = np.concatenate((self._input, playable(samples)))
        return self._made()

    def flush(self) -> Float32:
        """The rest; nothing may follow."""
        due = math.floor(self._samples_in / Fraction(self._tempo) + Fraction(1, 2)) - self._samples_out
        # The last blocks may need so much after the end.
        beyond = math.ceil(self._block * max(self._tempo, 1.0)) + 2 * self._block + 2 * self._search
        self._input = np.concatenate((self._input, np.zeros(beyond, np.float32)))
        rest = self._made()
        assert len(rest) >= due >= 0, f"made {len(rest)} of {due} samples"
        return rest[:due]

    def _made(self) -> Float32:
        blocks = []
        input_end = self._input_start + len(self._input)
        while self._needed_end() <= input_end:
            blocks.append(self._make_block())
        self._drop_input(min(self._next, self._target() - self._search))
        made = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
        self._samples_out += len(made)
        return made

    def _target(self) -> int:
        """Where the next block starts in the input, by the tempo alone."""
        return int(self._blocks * self._block * self._tempo)

    def _needed_end(self) -> int:
        """How much input the next block needs: all places that it may be made of, and all input that it replaces.

        Without the latter a fast tempo would be ahead of its input, which may be the last.
        """
        replaced_end = math.ceil((self._blocks + 1) * self._block * self._tempo)
        return max(self._next + self._block, self._target() + self._search + self._block, replaced_end)

    def _make_block(self) -> Float32:
        followed = self._samples(self._next, self._next + self._block)
        start = self._most_similar(followed) if self._blocks else 0
        chosen = self._samples(start, start + self._block)
        self._next = start + self._block
        self._blocks += 1
        faded: Float32 = followed + self._fade_in * (chosen - followed)
        return faded

    def _most_similar(self, followed: Float32) -> int:
        """The start of the block around the target with the greatest normalised correlation with `followed`."""
        target = self._target()
        first = max(target - self._search, 0)
        around = self._samples(first, target + self._search + self._block)
        energy = np.concatenate((np.zeros(1), np.cumsum(np.square(around, dtype=np.float64))))
        norm = np.sqrt(np.maximum(energy[self._block :] - energy[: -self._block], 0.0) * np.dot(followed, followed))
        likeness = np.correlate(around, followed, "valid") / (norm + 1e-9)
        return first + int(np.argmax(likeness - self._penalty[first - (target - self._search) :]))

    def _samples(self, start: int, end: int) -> Float32:
        return self._input[start - self._input_start : end - self._input_start]

    def _drop_input(self, before: int) -> None:
        dropped = max(before - self._input_start, 0)
        self._input = self._input[dropped:]
        self._input_start += dropped
