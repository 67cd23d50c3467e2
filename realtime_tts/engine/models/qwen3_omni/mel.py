"""Log-mel spectrogram for the audio tower, as Whisper's: 128 Slaney bands up to 8 kHz, a column every 160 samples."""

import functools

import numpy as np
import numpy.typing as npt

from realtime_tts.engine.models.qwen3.mel_filters import mel_filters

BANDS = 128
SAMPLE_RATE_HZ = 16_000
WINDOW_SAMPLES, HOP_SAMPLES = 400, 160
MAX_HZ = 8000.0
MIN_SAMPLES = WINDOW_SAMPLES
"""A shorter recording has hardly a sound, and cannot be reflected at its ends."""
RANGE_DECADES = 8.0
"""What is lower than the clip's own maximum by more is raised to there."""


def mel_frames(samples: int) -> int:
    """The columns of a recording: the reference drops the last frame of the centred transform."""
    return samples // HOP_SAMPLES


def log_mel(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """(n,) at 16 kHz to (128, n // 160).

    The floor depends on the whole clip, so a part of it alone has other values.
    """
    if samples.ndim != 1 or len(samples) < MIN_SAMPLES:
        raise ValueError(f"a recording must have at least {MIN_SAMPLES} samples, got shape {samples.shape}")
    padded = np.pad(samples.astype(np.float64), WINDOW_SAMPLES // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW_SAMPLES)[::HOP_SAMPLES][: mel_frames(len(samples))]
    window, filters = _tables()
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    decades = np.log10(np.maximum(filters @ power.T, 1e-10))
    decades = np.maximum(decades, decades.max() - RANGE_DECADES)
    return np.asarray((decades + 4) / 4, np.float32)


@functools.cache
def _tables() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """A periodic Hann window, and the filters."""
    return np.hanning(WINDOW_SAMPLES + 1)[:-1], mel_filters(BANDS, WINDOW_SAMPLES // 2 + 1, SAMPLE_RATE_HZ, MAX_HZ)
