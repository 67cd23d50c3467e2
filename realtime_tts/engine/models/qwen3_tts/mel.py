"""Log-mel spectrogram for the speaker encoder: 128 Slaney bands up to 12 kHz, a column every 256 samples."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from realtime_tts.engine.models.qwen3.mel_filters import mel_filters as slaney_filters

SAMPLE_RATE_HZ = 24_000
WINDOW_SAMPLES = 1024
HOP_SAMPLES = 256
MAX_HZ = 12_000.0
PAD_SAMPLES = (WINDOW_SAMPLES - HOP_SAMPLES) // 2
MIN_SAMPLES = PAD_SAMPLES + 1
"""A shorter recording cannot be reflected at its ends."""


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
    """[bands, 513], for `log_mel`."""
    filters = slaney_filters(bands, WINDOW_SAMPLES // 2 + 1, SAMPLE_RATE_HZ, MAX_HZ)
    return torch.from_numpy(filters.astype(np.float32))
