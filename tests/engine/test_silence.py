"""Silence at the beginning is left out by whole frames, and nothing that can be heard ever is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.silence import SILENT_PEAK, silent_samples

FRAME = 10


@given(
    peaks=st.lists(st.sampled_from([0.0, 0.9 * SILENT_PEAK, SILENT_PEAK, -SILENT_PEAK, 0.5]), min_size=1, max_size=6),
    most=st.integers(0, 4),
    place=st.integers(0, FRAME - 1),
)
def test_as_many_whole_silent_frames_as_may_be_and_never_the_last(peaks: list[float], most: int, place: int) -> None:
    samples = np.zeros((len(peaks), FRAME), np.float32)
    samples[:, place] = peaks
    audible = [abs(peak) >= SILENT_PEAK for peak in peaks]
    expected = min(most, len(peaks) - 1, audible.index(True) if any(audible) else len(peaks))
    assert silent_samples(samples.ravel(), FRAME, most) == expected * FRAME


@pytest.mark.parametrize("length", range(FRAME + 1))
def test_a_sound_of_no_more_than_a_frame_is_kept_whole(length: int) -> None:
    assert silent_samples(np.zeros(length, np.float32), FRAME, 3) == 0


def test_what_is_no_number_is_no_silence() -> None:
    assert silent_samples(np.full(3 * FRAME, np.nan, np.float32), FRAME, 2) == 0
