"""Leading silence: whole silent frames are left out, and audible ones never."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.silence import SILENT_PEAK, silent_samples

FRAME = 10


@given(
    peaks=st.lists(st.sampled_from([0.0, 0.9 * SILENT_PEAK, SILENT_PEAK, -SILENT_PEAK, 0.5]), min_size=1, max_size=6),
    most=st.integers(0, 4),
    offset=st.integers(0, FRAME - 1),
)
def test_whole_silent_frames_are_counted_up_to_the_limit_and_never_the_last(
    peaks: list[float], most: int, offset: int
) -> None:
    samples = np.zeros((len(peaks), FRAME), np.float32)
    samples[:, offset] = peaks
    audible = [abs(peak) >= SILENT_PEAK for peak in peaks]
    expected = min(most, len(peaks) - 1, audible.index(True) if any(audible) else len(peaks))
    assert silent_samples(samples.ravel(), FRAME, most) == expected * FRAME


def test_audio_of_no_more_than_a_frame_is_kept() -> None:
    for length in range(FRAME + 1):
        assert silent_samples(np.zeros(length, np.float32), FRAME, 3) == 0, length


def test_samples_that_are_not_numbers_are_not_silence() -> None:
    assert silent_samples(np.full(3 * FRAME, np.nan, np.float32), FRAME, 2) == 0
