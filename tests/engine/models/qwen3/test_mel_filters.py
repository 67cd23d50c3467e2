"""Mel filters are triangles of one area, each between the centres of its neighbours."""

import numpy as np

from realtime_tts.engine.models.qwen3.mel_filters import mel_filters

FILTERS = mel_filters(128, 201, 16_000, 8000.0)


def test_every_bin_between_the_outer_centres_is_in_one_or_two_bands() -> None:
    used = (FILTERS > 0).sum(0)
    assert used[0] == 0
    assert used[-1] == 0
    assert used.max() <= 2
    assert FILTERS.min() == 0


def test_wide_bands_have_one_area() -> None:
    areas_hz = FILTERS.sum(1) * 40  # a bin is 40 Hz
    np.testing.assert_allclose(areas_hz[-30:], 1, rtol=0.05)
