"""Audio of the test model: text to codec frames to samples, as pure functions."""

import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realtime_tts.engine.api import Samples, SynthesisRequest, Word

Frames = npt.NDArray[np.int64]
"""(n, 3): pitch, timbre and loudness of each codec frame."""

CODE_LIMITS = (16, 4, 4)
"""The codes of a frame are below these."""
SAMPLE_RATE_HZ = 24_000
SAMPLES_PER_FRAME = 1920
FRAMES_PER_CHARACTER = 0.8
"""15.6 characters a second: the usual rate of English speech."""


FRAMES_PER_TOKEN = 2.4
"""Of an answer, whose tokens are three characters."""


@dataclass(slots=True)
class FrameMaker:
    """Makes the frames of a text in order, also while the text still grows.

    A frame depends on voice, speed and the text up to the last character that it speaks, so those of a beginning are
    the first of the whole.
    """

    voice: str
    speed: float
    done: int = 0
    _digest: int | None = None
    _read: int = 0

    def needs_text(self, text: str) -> bool:
        """Whether the next frame speaks characters beyond `text`."""
        return self._end > len(text)

    def next(self, text: str) -> Frames:
        """(1, 3)."""
        if self._digest is None:
            self._digest = zlib.crc32(f"{self.voice}\0".encode())
        end = self._end
        self._digest = zlib.crc32(text[self._read : end].encode("utf-8", "replace") + b"\0", self._digest)
        self._read = end
        self.done += 1
        return _frame(self._digest, self.voice)

    @property
    def _end(self) -> int:
        """The characters that are spoken at the end of the next frame."""
        return math.ceil((self.done + 1) * self.speed / FRAMES_PER_CHARACTER)


@dataclass(slots=True)
class TokenFrameMaker:
    """Makes the frames of an answer in order, while its tokens arrive: frame k depends on the tokens up to k."""

    voice: str
    done: int = 0
    _digest: int = 0

    def next(self, ids: Sequence[int]) -> Frames:
        """(1, 3)."""
        token = ids[self.done] if self.done < len(ids) else -1
        self._digest = zlib.crc32(f"{token}\0".encode(), self._digest)
        self.done += 1
        return _frame(self._digest, self.voice)


def _frame(digest: int, voice: str) -> Frames:
    pitch = (digest & 7) + 8 * (voice == "tone_high")
    return np.array([(pitch, digest >> 3 & 3, digest >> 5 & 3)], np.int64)


def answer_codes(ids: Sequence[int], voice: str, frames_per_token: float = FRAMES_PER_TOKEN) -> Frames:
    """All codec frames of an answer (n, 3)."""
    maker = TokenFrameMaker(voice)
    return np.concatenate([maker.next(ids) for _ in range(max(1, round(len(ids) * frames_per_token)))])


def frame_count(text: str, speed: float) -> int:
    return max(1, round(len(text) * FRAMES_PER_CHARACTER / speed))


def codes(request: SynthesisRequest) -> Frames:
    """All codec frames of a text (n, 3)."""
    maker = FrameMaker(request.voice, request.speed)
    count = frame_count(request.text, request.speed)
    return np.concatenate([maker.next(request.text) for _ in range(count)])


def words(request: SynthesisRequest) -> tuple[Word, ...]:
    """The time of each word: every character, spaces included, takes the same share of the audio."""
    length = len(request.text)
    duration_s = frame_count(request.text, request.speed) * SAMPLES_PER_FRAME / SAMPLE_RATE_HZ
    spans = (match.span() for match in re.finditer(r"\S+", request.text))
    return tuple(Word(start, end, duration_s * (start / length), duration_s * (end / length)) for start, end in spans)


def answer(text: str) -> str:
    """What the Thinker answers to a text."""
    return f"You said: {text}"


def _waveforms() -> Samples:
    """The samples of a frame for each (pitch, timbre), float32 (16, 4, 1920).

    Every pitch is a multiple of the frame rate, so each frame has whole periods and joins the next without a click.
    """
    time_s = np.arange(SAMPLES_PER_FRAME) / SAMPLE_RATE_HZ
    harmonics = np.arange(1, 9)
    pitches_hz = 12.5 * np.arange(8, 24)
    partials = np.sin(2 * np.pi * pitches_hz[:, None, None] * harmonics[:, None] * time_s)
    formants = np.exp(-(((harmonics - np.array([1, 2, 3, 4])[:, None]) / 1.5) ** 2))
    weights = formants / formants.sum(axis=1, keepdims=True)
    return np.asarray(np.einsum("phn,th->ptn", partials, weights), np.float32)


_WAVEFORMS = _waveforms()
_LOUDNESS = np.array([0.05, 0.25, 0.4, 0.6], np.float32)
_RAMP = np.linspace(0.0, 1.0, SAMPLES_PER_FRAME, endpoint=False, dtype=np.float32)


def decode(frames: Frames, previous_loudness: float = 0.0) -> Samples:
    """Codec frames (n, 3) to float32 samples (n · 1920,), the loudness gliding from one frame to the next."""
    loudness = _LOUDNESS[frames[:, 2]]
    before = np.concatenate(([np.float32(previous_loudness)], loudness[:-1]))
    envelope = before[:, None] + (loudness - before)[:, None] * _RAMP
    return np.asarray(_WAVEFORMS[frames[:, 0], frames[:, 1]] * envelope, np.float32).reshape(-1)


def loudness_of(frames: Frames) -> float:
    """At the end of the frames."""
    return float(_LOUDNESS[frames[-1, 2]])


def render(request: SynthesisRequest) -> Samples:
    """All samples of a request at once: any division into chunks must give the same."""
    return decode(codes(request))
