"""The log-mel spectrogram equals the reference's."""

import numpy as np
import pytest

from realtime_tts.engine.models.qwen3_omni.mel import log_mel, mel_frames
from tests.engine.models.qwen3_omni import inputs
from tests.engine.models.qwen3_omni.goldens import error


def test_spectrograms_equal_the_reference() -> None:
    for number, seconds in enumerate(inputs.CLIPS_S):
        mel = log_mel(inputs.speech(seconds, number))
        assert mel.shape == (128, mel_frames(int(seconds * 16_000)))
        assert error(mel.mean(0), f"audio_{number}/mel_mean") <= 1e-4, seconds


def test_a_recording_of_no_whole_window_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least 400 samples"):
        log_mel(np.zeros(399, np.float32))
