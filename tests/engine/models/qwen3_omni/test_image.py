"""Patches equal the reference's to the bit, at any size of image."""

import numpy as np
import pytest

pytest.importorskip("PIL")

from realtime_tts.engine.models.qwen3_omni.config import PreprocessorConfig
from realtime_tts.engine.models.qwen3_omni.image import Grid, fit, patches
from tests.engine.models.qwen3_omni import inputs
from tests.engine.models.qwen3_omni.goldens import golden

CONFIG = PreprocessorConfig()


def test_patches_equal_the_reference() -> None:
    for number, (height, width) in enumerate(inputs.SIZES):
        grid = fit(height, width, CONFIG)
        assert [1, 2 * grid.rows, 2 * grid.columns] == golden(f"image_{number}/grid").tolist()
        found = patches(inputs.picture(height, width, number), grid).reshape(-1, 3, 2, 256)
        np.testing.assert_array_equal(found[:, :, 0], golden(f"image_{number}/patches"), err_msg=f"{height} {width}")
        np.testing.assert_array_equal(found[:, :, 0], found[:, :, 1])


def test_the_number_of_pixels_is_bounded() -> None:
    for height, width in ((1, 200), (200, 1), (9000, 9000), (30_000, 200), (33, 33)):
        pixels = fit(height, width, CONFIG).tokens * 32 * 32
        assert CONFIG.min_pixels <= pixels <= CONFIG.max_pixels, (height, width)
    assert fit(64, 96, CONFIG) == Grid(2, 3)


def test_empty_and_narrow_images_are_rejected() -> None:
    for height, width in ((0, 10), (10, 0), (1, 201), (402, 2)):
        with pytest.raises(ValueError, match="narrower than 1:200"):
            fit(height, width, CONFIG)
