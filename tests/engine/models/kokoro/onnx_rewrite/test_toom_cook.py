"""Tests of the Toom-Cook transforms: the same outputs as the direct sum, from fewer multiplications."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.kokoro.onnx_rewrite.toom_cook import toom_cook


@settings(max_examples=40)
@given(st.integers(1, 15), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_the_transforms_compute_a_convolution(taps: int, half: int, seed: int) -> None:
    size = max(4, 2 * half + taps + taps % 2)
    rng = np.random.default_rng(seed)
    samples, weights = rng.standard_normal(size), rng.standard_normal(taps)
    transforms = toom_cook(size, taps)
    outputs = transforms.outputs @ ((transforms.weights @ weights) * (transforms.inputs @ samples))
    np.testing.assert_allclose(outputs, np.correlate(samples, weights, "valid"), atol=1e-4)


def test_they_need_less_than_half_the_multiplications_of_the_direct_sum() -> None:
    for size, taps, count in ((34, 11, 49), (18, 11, 25), (22, 7, 31), (14, 7, 19)):
        transforms = toom_cook(size, taps)
        assert len(transforms.inputs) == len(transforms.weights) == transforms.outputs.shape[1] == count, (size, taps)
        assert count * 2 < len(transforms.outputs) * taps, (size, taps)
