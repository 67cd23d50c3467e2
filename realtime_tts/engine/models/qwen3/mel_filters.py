"""Mel filters on Slaney's scale: linear to 1 kHz in steps of 200/3 Hz, then 27 logarithmic steps per factor of 6.4."""

import numpy as np
import numpy.typing as npt

_LINEAR_HZ = 200.0 / 3
_KNEE_HZ = 1000.0
_KNEE_MEL = _KNEE_HZ / _LINEAR_HZ
_LOG_STEP = np.log(6.4) / 27


def mel_filters(bands: int, bins: int, sample_rate_hz: int, max_hz: float) -> npt.NDArray[np.float64]:
    """[bands, bins]: triangles between neighbouring centres, all of the same area (Slaney's Auditory Toolbox).

    The bins are those of a transform of a real signal, from 0 to half of the sample rate.
    """
    bins_hz = np.linspace(0, sample_rate_hz / 2, bins)
    centres_hz = _hz(np.linspace(0, _mel(max_hz), bands + 2))
    widths_hz = np.diff(centres_hz)
    slopes = centres_hz[:, None] - bins_hz
    rising, falling = -slopes[:-2] / widths_hz[:-1, None], slopes[2:] / widths_hz[1:, None]
    triangles = np.maximum(0, np.minimum(rising, falling))
    heights: npt.NDArray[np.float64] = 2 / (centres_hz[2:] - centres_hz[:-2])
    return triangles * heights[:, None]


def _mel(hz: float) -> float:
    return float(_KNEE_MEL + np.log(hz / _KNEE_HZ) / _LOG_STEP) if hz >= _KNEE_HZ else hz / _LINEAR_HZ


def _hz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.where(mel < _KNEE_MEL, mel * _LINEAR_HZ, _KNEE_HZ * np.exp(_LOG_STEP * (mel - _KNEE_MEL)))
