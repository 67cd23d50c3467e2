"""The layers give the outputs of the published modules, which are written differently."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402

from realtime_tts.engine.models.qwen3.codec.layers import (  # noqa: E402
    Norm,
    Snake,
    Upsample,
    pop_codebook,
    pop_tensor,
    reject_unused,
    rotate,
    rotations,
)
from realtime_tts.errors import ModelNotUsable  # noqa: E402


def noise(*shape: int, seed: int = 0) -> Tensor:
    drawn: Tensor = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return drawn


@given(st.integers(1, 9), st.integers(1, 2), st.integers(1, 6), st.integers(1, 5), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_upsampling_is_a_transposed_convolution_trimmed_on_the_right(
    rate: int, strides: int, steps: int, inputs: int, outputs: int
) -> None:
    weight, bias = noise(inputs, outputs, strides * rate), noise(outputs, seed=1)
    up = Upsample.from_state({"up.weight": weight, "up.bias": bias}, "up", inputs, outputs, rate, strides)
    x = noise(2, inputs, steps, seed=2)
    expected = functional.conv_transpose1d(x, weight, bias, stride=rate)[..., : steps * rate]
    assert torch.allclose(up(functional.pad(x, (up.conv.left, 0))), expected, atol=1e-5)


def test_snake_adds_a_squared_sine() -> None:
    alpha, beta, x = noise(3), noise(3, seed=1), noise(2, 3, 7, seed=2)
    snake = Snake.from_state({"s.alpha": alpha, "s.beta": beta}, "s", 3)
    expected = x + torch.sin(x * alpha.exp()[:, None]) ** 2 / (beta.exp()[:, None] + 1e-9)
    kept = x.clone()
    assert torch.allclose(snake(x), expected, atol=1e-6)
    assert torch.equal(x, kept)


def test_snake_stays_finite_at_its_largest_gain() -> None:
    snake = Snake.from_state({"s.alpha": torch.zeros(1), "s.beta": torch.tensor([-200.0])}, "s", 1)
    assert snake(torch.tensor([[[1.0]]])) == pytest.approx(1 + float(torch.sin(torch.tensor(1.0))) ** 2 / 1e-9)


def test_a_norm_without_a_bias_is_rms_norm_and_with_one_layer_norm() -> None:
    x = noise(4, 8) + 3
    weight, bias = noise(8, seed=1), noise(8, seed=2)
    rms = Norm.from_state({"n.weight": weight}, "n", 8, 1e-5)
    assert torch.allclose(rms(x), functional.rms_norm(x, (8,), weight, 1e-5), atol=1e-6)
    layer = Norm.from_state({"n.weight": weight, "n.bias": bias}, "n", 8, 1e-6, bias=True)
    assert torch.allclose(layer(x), functional.layer_norm(x, (8,), weight, bias, 1e-6), atol=1e-6)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 200))
@settings(max_examples=30, deadline=None)
def test_only_the_distance_between_two_rotated_vectors_matters(first: int, second: int, shift: int) -> None:
    cos, sin = rotations(300, 8, 10_000.0, torch.device("cpu"))
    q, k = noise(1, 1, 1, 8), noise(1, 1, 1, 8, seed=1)

    def product(at: int, other: int) -> float:
        return float((rotate(q, cos[at : at + 1], sin[at : at + 1]) * rotate(k, cos[other], sin[other])).sum())

    assert product(first, second) == pytest.approx(product(first + shift, second + shift), abs=1e-5)


def test_a_codebook_is_sums_over_counts_and_a_count_of_zero_is_clamped() -> None:
    state = {"b.embedding_sum": torch.tensor([[2.0, 4.0], [1e-5, 0.0]]), "b.cluster_usage": torch.tensor([2.0, 0.0])}
    centroids = pop_codebook(state, "b", "embedding_sum", 2, 2)
    assert torch.allclose(centroids, torch.tensor([[1.0, 2.0], [1.0, 0.0]]))
    assert not state


def test_a_tensor_is_read_once() -> None:
    state = {"a": torch.zeros(2, 3).half()}
    assert pop_tensor(state, "a", (2, 3)).dtype == torch.float32
    with pytest.raises(ModelNotUsable, match=r"no a, of shape \(2, 3\)"):
        pop_tensor(state, "a", (2, 3))


def test_a_tensor_of_another_shape_or_dtype_is_rejected() -> None:
    for tensor, words in ((torch.zeros(3, 2), r"shape \(3, 2\)"), (torch.zeros(2, 3).int(), "int32")):
        with pytest.raises(ModelNotUsable, match=words):
            pop_tensor({"a": tensor}, "a", (2, 3))


def test_unused_tensors_are_named() -> None:
    reject_unused({}, "decoder")
    with pytest.raises(ModelNotUsable, match="decoder has unknown tensors: a, b"):
        reject_unused({"b": torch.zeros(1), "a": torch.zeros(1)}, "decoder")
