"""However a matrix lies in memory, its products are the same."""

import pytest

pytest.importorskip("torch")

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3_tts.matrix import GEMV_ROWS, Matrix


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("often", [False, True])
@pytest.mark.parametrize("shape", [(1,), (GEMV_ROWS,), (GEMV_ROWS + 1,), (9,), (1, 1), (3, 1), (2, 5), ()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_its_product_is_that_of_the_weight(often: bool, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    weight, x = drawn(24, 40, dtype=dtype), drawn(*shape, 40, seed=1, dtype=dtype)
    found = Matrix(weight, often=often)(x)
    assert found.shape == (*shape, 24)
    torch.testing.assert_close(found, F.linear(x, weight), rtol=0, atol=1e-5 if dtype is torch.float32 else 0)


@pytest.mark.parametrize("often", [False, True])
def test_a_row_s_product_does_not_depend_on_the_rows_beside_it(often: bool) -> None:
    matrix, x = Matrix(drawn(24, 40), often=often), drawn(6, 40, seed=1)
    together = matrix(x)
    for row in range(len(x)):
        torch.testing.assert_close(matrix(x[row : row + 1])[0], together[row], rtol=0, atol=1e-5)


def test_several_are_one_with_their_outputs_side_by_side() -> None:
    parts, x = [drawn(8, 16, seed=n) for n in range(3)], drawn(2, 16, seed=5)
    torch.testing.assert_close(Matrix.rows(*parts)(x), torch.cat([x @ part.t() for part in parts], -1))


def test_what_was_given_may_be_changed_afterwards() -> None:
    weight, x = drawn(8, 16), drawn(1, 16, seed=1)
    expected = F.linear(x, weight)
    packed, both = Matrix(weight), Matrix(weight, often=True)
    weight.zero_()
    for matrix in (packed, both):
        torch.testing.assert_close(matrix(x), expected)
