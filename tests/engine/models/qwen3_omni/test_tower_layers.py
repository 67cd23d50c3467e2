"""Attention within windows equals attention of each window alone."""

import pytest

pytest.importorskip("torch")

import torch

from realtime_tts.engine.models.qwen3_omni.tower_layers import Affine, LayerNorm, attend


def values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_windows_do_not_see_one_another() -> None:
    for length in (1, 3, 4, 11, 12):
        query, key, value = (values(length, 2, 5) + n for n in range(3))
        expected = []
        for start in range(0, length, 4):
            part = [x[start : start + 4] for x in (query, key, value)]
            scores = torch.einsum("qhd,khd->hqk", part[0], part[1]) / 5**0.5
            expected.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), part[2]).flatten(1))
        assert torch.allclose(attend(query, key, value, 4), torch.cat(expected), atol=1e-5), length
    assert torch.allclose(attend(query, key, value), attend(query, key, value, 100), atol=1e-6)


def test_layers_equal_their_formulas() -> None:
    x, weight, bias = values(3, 4), values(2, 4), values(2)
    assert torch.allclose(Affine(weight, bias)(x), x @ weight.T + bias, atol=1e-6)
    scale, shift = values(4), values(4) + 1
    normed = (x - x.mean(1, keepdim=True)) / (x.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    assert torch.allclose(LayerNorm(scale, shift, 1e-5)(x), normed * scale + shift, atol=1e-5)
