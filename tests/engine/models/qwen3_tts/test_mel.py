"""The spectrogram equals that of the reference."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from realtime_tts.engine.models.qwen3_tts.mel import MIN_SAMPLES, log_mel, mel_filters  # noqa: E402
from tests.engine.models.qwen3_tts import make_codec as make  # noqa: E402

GOLDENS = np.load(Path(__file__).parent / "goldens_codec" / "speaker.npz")
VOICES = {name: samples for name, samples in make.recordings().items() if f"{name}_mel" in GOLDENS}
FILTERS = mel_filters(128)


def test_spectrograms_equal_those_of_the_reference() -> None:
    for name, samples in VOICES.items():
        mel = log_mel(torch.from_numpy(samples), FILTERS).numpy()
        assert mel.shape == (128, len(samples) // 256), name
        assert np.abs(mel[:, :: make.MEL_STRIDE] - GOLDENS[f"{name}_mel"]).max() <= 1e-5, name


def test_every_band_is_a_triangle_of_the_same_area() -> None:
    filters = FILTERS.numpy()
    assert filters.shape == (128, 513)
    assert (filters >= 0).all()
    assert (np.diff(filters.argmax(1)) >= 0).all()
    # High bands span many bins, so their sum is near their area: 1 Hz / Hz, in bins of 23.4 Hz.
    assert filters[100:].sum(1) * 24_000 / 1024 == pytest.approx(1, rel=0.02)


def test_a_tone_is_loudest_in_its_band() -> None:
    for hz in (200, 1000, 3000, 9000):
        tone = torch.sin(2 * torch.pi * hz * torch.arange(24_000) / 24_000)
        band = int(log_mel(tone, FILTERS)[:, 40].argmax())
        peak_hz = float(FILTERS[band].argmax()) * 24_000 / 1024
        assert peak_hz == pytest.approx(hz, rel=0.1)


def test_silence_is_near_the_lower_limit() -> None:
    mel = log_mel(torch.zeros(2048), FILTERS)
    assert mel.max() < -9
    assert mel.min() >= np.log(1e-5) - 1e-6


def test_a_recording_that_is_too_short_is_rejected() -> None:
    for samples in (0, MIN_SAMPLES - 1):
        with pytest.raises(ValueError, match="385 samples"):
            log_mel(torch.zeros(samples), FILTERS)
    assert log_mel(torch.zeros(MIN_SAMPLES), FILTERS).shape == (128, 1)
