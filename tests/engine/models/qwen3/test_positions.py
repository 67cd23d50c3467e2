"""Rotary positions of three axes equal the formula, and equal axes are plain positions."""

import pytest

pytest.importorskip("torch")

import torch

from realtime_tts.engine.models.qwen3.config import StackConfig
from realtime_tts.engine.models.qwen3.positions import RopeTable

SECTIONS = (6, 5, 5)
CONFIG = StackConfig(
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=1,
    num_attention_heads=1,
    num_key_value_heads=1,
    head_dim=32,
    rope_theta=1000.0,
    vocab_size=1,
    rope_sections=SECTIONS,
)
TABLE = RopeTable(CONFIG, 64, torch.device("cpu"), torch.float32)


def test_each_frequency_uses_its_axis() -> None:
    position = torch.tensor([3, 17, 40]).view(3, 1, 1)
    cosine, sine = TABLE(position)
    for frequency in range(16):
        axis = frequency % 3
        if axis and frequency >= 3 * SECTIONS[axis]:
            axis = 0
        angle = position[axis, 0, 0] / CONFIG.rope_theta ** (2 * frequency / CONFIG.head_dim)
        for half, sign in ((0, -1), (16, 1)):
            assert torch.allclose(cosine[0, 0, 0, frequency + half], angle.cos(), atol=1e-6), frequency
            assert torch.allclose(sine[0, 0, 0, frequency + half], sign * angle.sin(), atol=1e-6), frequency


def test_equal_axes_are_plain_positions() -> None:
    plain = torch.tensor([[0, 1, 2, 50], [7, 8, 9, 10]])
    for three, one in zip(TABLE(plain.expand(3, -1, -1)), TABLE(plain), strict=True):
        assert torch.equal(three, one)
