"""The outputs do not depend on the layout of the weight in memory."""

import itertools

import pytest

pytest.importorskip("torch")

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3.linear import GEMV_ROWS, MIN_PACKED_VALUES, PackedLinear

SIZES = ((24, 40), (512, MIN_PACKED_VALUES // 512))
"""Of a weight that is not packed, and of one that is."""


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def test_outputs_are_the_product_with_the_weight() -> None:
    shapes: list[tuple[int, ...]] = [(1,), (GEMV_ROWS,), (GEMV_ROWS + 1,), (9,), (1, 1), (3, 1), (2, 5), ()]
    dtypes = [torch.float32, torch.float64, torch.bfloat16]
    for shape, dtype, transposed, (outputs, inputs) in itertools.product(shapes, dtypes, (False, True), SIZES):
        weight, x = drawn(outputs, inputs, dtype=dtype), drawn(*shape, inputs, seed=1, dtype=dtype)
        found = PackedLinear(weight, keep_transposed=transposed)(x)
        assert found.shape == (*shape, outputs)
        torch.testing.assert_close(found, F.linear(x, weight), rtol=0, atol=1e-4 if dtype is torch.float32 else 0)


def test_a_row_does_not_depend_on_the_other_rows() -> None:
    for transposed, size in itertools.product((False, True), SIZES):
        linear, x = PackedLinear(drawn(*size), keep_transposed=transposed), drawn(6, size[1], seed=1)
        together = linear(x)
        for row in range(len(x)):
            torch.testing.assert_close(linear(x[row : row + 1])[0], together[row], rtol=0, atol=1e-4)


def test_concatenated_weights_concatenate_their_outputs() -> None:
    parts, x = [drawn(8, 16, seed=n) for n in range(3)], drawn(2, 16, seed=5)
    torch.testing.assert_close(PackedLinear.concat(*parts)(x), torch.cat([x @ part.t() for part in parts], -1))


def test_a_later_change_of_a_weight_that_is_packed_has_no_effect() -> None:
    weight, x = drawn(*SIZES[1]), drawn(1, SIZES[1][1], seed=1)
    expected = F.linear(x, weight)
    packed, both = PackedLinear(weight), PackedLinear(weight, keep_transposed=True)
    weight.zero_()
    for linear in (packed, both):
        torch.testing.assert_close(linear(x), expected, rtol=0, atol=1e-4)
