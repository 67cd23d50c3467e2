"""Log-mel spectrogram for the speaker encoder: 128 Slaney bands up to 12 kHz, a column every 256 samples."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

SAMPLE_RATE_HZ = 24_000
WINDOW_SAMPLES = 1024
HOP_SAMPLES = 256
MAX_HZ = 12_000.0
PAD_SAMPLES = (WINDOW_SAMPLES - HOP_SAMPLES) // 2
MIN_SAMPLES = PAD_SAMPLES + 1
"""A shorter recording cannot be reflected at its ends."""

# Slaney's scale: linear to 1 kHz in steps of 200/3 Hz, then 27 logarithmic steps for each factor of 6.4.
_LINEAR_HZ = 200.0 / 3
_KNEE_HZ = 1000.0
_KNEE_MEL = _KNEE_HZ / _LINEAR_HZ
_LOG_STEP = np.log(6.4) / 27


def log_mel(wave: Tensor, filters: Tensor) -> Tensor:
    """[samples] at 24 kHz to [bands, samples // 256] of natural logarithms; `filters` are those of `mel_filters`."""
    if wave.ndim != 1 or wave.shape[0] < MIN_SAMPLES:
        raise ValueError(f"a recording must have at least {MIN_SAMPLES} samples, got shape {tuple(wave.shape)}")
    padded = functional.pad(wave[None], (PAD_SAMPLES, PAD_SAMPLES), "reflect")[0]
    window = torch.hann_window(WINDOW_SAMPLES, device=wave.device)
    spectrum = torch.stft(
        padded, WINDOW_SAMPLES, HOP_SAMPLES, WINDOW_SAMPLES, window, center=False, return_complex=True
    )
    magnitude = (torch.view_as_real(spectrum).square().sum(-1) + 1e-9).sqrt()
    return (filters @ magnitude).clamp(min=1e-5).log()


def mel_filters(bands: int) -> Tensor:
    """[bands, 513]: triangles between neighbouring centres, all of the same area (Slaney's Auditory Toolbox)."""
    bins_hz = np.linspace(0, SAMPLE_RATE_HZ / 2, WINDOW_SAMPLES // 2 + 1)
    centres_hz = _hz(np.linspace(0, _mel(MAX_HZ), bands + 2))
    widths_hz = np.diff(centres_hz)
    slopes = centres_hz[:, None] - bins_hz
    rising, falling = -slopes[:-2] / widths_hz[:-1, None], slopes[2:] / widths_hz[1:, None]
    triangles = np.maximum(0, np.minimum(rising, falling))
    heights = 2 / (centres_hz[2:] - centres_hz[:-2])
    return torch.from_numpy((triangles * heights[:, None]).astype(np.float32))


def _mel(hz: float) -> float:
    return float(_KNEE_MEL + np.log(hz / _KNEE_HZ) / _LOG_STEP) if hz >= _KNEE_HZ else hz / _LINEAR_HZ


def _hz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.where(mel < _KNEE_MEL, mel * _LINEAR_HZ, _KNEE_HZ * np.exp(_LOG_STEP * (mel - _KNEE_MEL)))
