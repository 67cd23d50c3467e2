"""A tile gives what the plain sum gives, from fewer products."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.models.kokoro.tiles import make_tile


@given(st.integers(1, 15), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_a_tile_is_a_convolution(taps: int, half: int, seed: int) -> None:
    size = max(4, 2 * half + taps + taps % 2)
    rng = np.random.default_rng(seed)
    samples, weights = rng.standard_normal(size), rng.standard_normal(taps)
    tile = make_tile(size, taps)
    made = tile.outputs @ ((tile.weights @ weights) * (tile.inputs @ samples))
    np.testing.assert_allclose(made, np.correlate(samples, weights, "valid"), atol=1e-4)


@pytest.mark.parametrize(("size", "taps", "products"), [(34, 11, 49), (18, 11, 25), (22, 7, 31), (14, 7, 19)])
def test_it_takes_fewer_products_than_the_sum(size: int, taps: int, products: int) -> None:
    tile = make_tile(size, taps)
    assert len(tile.inputs) == len(tile.weights) == tile.outputs.shape[1] == products
    assert products * 2 < len(tile.outputs) * taps
