"""Frames between the two stages: one row of numbers each, which the engine slices without interpreting them."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from realtime_tts.engine.models.kokoro.onnx_rewrite.streaming_inputs import HARMONICS, SAMPLES_PER_PHASE_STEP

Array = npt.NDArray[np.float32]

FEATURES = 512
FRAME_WIDTH = FEATURES + 2 + 2 + 1 + 1
"""512 text features, 2 values of pitch, 2 of loudness, the phase of the fundamental, and the piece of text."""

SAMPLE_RATE_HZ = 24_000
SAMPLES_PER_FRAME = 600

# Kokoro begins every sentence with 0.2 to 0.5 s of silence, which would be most of the time to first audio.  The
# loudness values show where it ends: over 140 sentences of all 28 voices the first sound (-50 dB below the peak) came
# between 0.2 frames before and 2.6 frames after the first frame above -3.  Two frames stay before that one.
_AUDIBLE_LOUDNESS = -3.0
LEAD_IN_FRAMES = 2
_MAX_TRIMMED_FRAMES = 20

# Every sentence ends with 0.4 s of silence and has pauses: a tenth of all frames.  Over 56 sentences of all 28 voices
# frames below this, with their neighbours, peaked at -67 dB in 99 of 100, at -60 dB at most; half were all zeros.
_SILENT_LOUDNESS = -6.0

_STYLES = 512
_PIECES = 2**24 // _STYLES  # float32 counts exactly up to 2**24


@dataclass(frozen=True, slots=True)
class Run:
    """Frames `[start, end)` of a window that belong to one piece of the text and so have one style."""

    start: int
    end: int
    style: int


def pack_frames(features: Array, f0: Array, noise: Array, *, piece: int, style: int) -> Array:
    """(1, 512, n), (1, 2n), (1, 2n) -> (n, 518)."""
    frames = np.empty((features.shape[2], FRAME_WIDTH), dtype=np.float32)
    frames[:, :FEATURES] = features[0].T
    frames[:, FEATURES : FEATURES + 2] = f0.reshape(-1, 2)
    frames[:, FEATURES + 2 : FEATURES + 4] = noise.reshape(-1, 2)
    frames[:, -2] = _phases(f0)
    # Adjacent pieces may have the same style row; the piece number distinguishes them.
    frames[:, -1] = (piece % _PIECES) * _STYLES + style
    return frames


def _phases(f0: Array) -> Array:
    """The phase of the fundamental at each frame's start, in cycles, [0, 1): the sum of the pitch, in Hz, from 0."""
    cycles = f0.reshape(-1, 2).astype(np.float64).sum(axis=1) * (SAMPLES_PER_PHASE_STEP / SAMPLE_RATE_HZ)
    phases: Array = ((np.cumsum(cycles) - cycles) % 1.0).astype(np.float32)
    return phases


def harmonic_phases(frames: Array) -> Array:
    """The phases at the start of these frames, as the vocoder's input PHASE: (1, 1, 9)."""
    cycles = np.arange(1, HARMONICS + 1, dtype=np.float32) * frames[0, -2]
    phases: Array = (cycles / SAMPLES_PER_PHASE_STEP).reshape(1, 1, HARMONICS)
    return phases


def without_leading_silence(frames: Array) -> Array:
    """The frames from 50 ms before the first sound.  All of them where there is no sound within 0.5 s."""
    loudness = frames[: _MAX_TRIMMED_FRAMES + LEAD_IN_FRAMES, FEATURES + 2 : FEATURES + 4].max(axis=1)
    audible = np.flatnonzero(loudness > _AUDIBLE_LOUDNESS)
    return frames[max(0, int(audible[0]) - LEAD_IN_FRAMES) :] if len(audible) else frames


def silent(frames: Array) -> npt.NDArray[np.bool_]:
    """Which frames are inaudible, as are both their neighbours among these: (n,)."""
    quiet = frames[:, FEATURES + 2 : FEATURES + 4].max(axis=1) < _SILENT_LOUDNESS
    padded = np.pad(quiet, 1, mode="edge")
    with_neighbours: npt.NDArray[np.bool_] = padded[:-2] & quiet & padded[2:]
    return with_neighbours


def unpack_frames(frames: Array) -> tuple[Array, Array, Array]:
    """(n, 518) -> (1, 512, n), (1, 2n), (1, 2n)."""
    return (
        np.ascontiguousarray(frames[:, :FEATURES].T)[None],
        frames[:, FEATURES : FEATURES + 2].reshape(1, -1),
        frames[:, FEATURES + 2 : FEATURES + 4].reshape(1, -1),
    )


def runs_of(frames: Array) -> Iterator[Run]:
    """The window's pieces, in order.  A run has one style, and no context from another piece."""
    keys = frames[:, -1]
    edges = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(keys)]
    for start, end in pairwise(edges):
        yield Run(start, end, int(keys[start]) % _STYLES)
