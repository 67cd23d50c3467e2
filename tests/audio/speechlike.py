"""Speech-like sound for tests: a gliding voice through formants, in syllables with silence between them."""

import numpy as np

from realtime_tts.audio.pcm import Float32


def speechlike(rate_hz: int, seconds: float = 1.5) -> Float32:
    t = np.arange(round(rate_hz * seconds)) / rate_hz
    pitch_hz = 140 + 30 * np.sin(2 * np.pi * 0.7 * t)
    phase = 2 * np.pi * np.cumsum(pitch_hz) / rate_hz
    highest = int(min(3_500, 0.45 * rate_hz) / 180)
    voice = np.zeros(len(t))
    for harmonic in range(1, highest):
        formants = sum(np.exp(-(((harmonic * pitch_hz - f) / 250) ** 2)) for f in (500, 1_500, 2_500))
        voice += (0.02 + formants) * np.sin(harmonic * phase) / np.sqrt(harmonic)
    syllables = np.clip(np.sin(2 * np.pi * 2.5 * t), 0, None) ** 0.5
    sound = voice * syllables
    samples: Float32 = (0.5 * sound / np.abs(sound).max()).astype(np.float32)
    return samples


def snr_db(true: Float32, got: Float32) -> float:
    assert true.shape == got.shape
    error = float(np.sum(np.square(true - got, dtype=np.float64)))
    return float(10 * np.log10(float(np.sum(np.square(true, dtype=np.float64))) / max(error, 1e-30)))
