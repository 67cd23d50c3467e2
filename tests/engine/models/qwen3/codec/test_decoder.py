"""Blocks that are trimmed on both sides equal those that have no columns before the start of the stream."""

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional

from realtime_tts.engine.models.qwen3.codec.decoder import DILATIONS, Block, StartTrim
from realtime_tts.engine.models.qwen3.codec.layers import Conv, Snake
from realtime_tts.engine.models.qwen3.codec.state import Carry, StateArena
from tests.engine.models.qwen3.codec.blocks import block_state

CHANNELS, RATE = 4, 3
SHAPES = {"block.up": (CHANNELS, 1)} | {f"block.{each}": (CHANNELS // 2, 6 * each) for each in DILATIONS}


def padded(conv: Conv, x: torch.Tensor) -> torch.Tensor:
    return conv(functional.pad(x, (conv.left, 0)))


def trimmed(x: torch.Tensor) -> torch.Tensor:
    """The block over a whole stream: torch's transposed convolution, trimmed by its stride on both sides."""
    state = block_state(CHANNELS, RATE)
    snake = Snake.from_state(state, "b.0", CHANNELS)
    weight, bias = state["b.1.conv.weight"], state["b.1.conv.bias"]
    x = functional.conv_transpose1d(snake(x), weight, bias, stride=RATE)[..., RATE:-RATE]
    for residual in Block.from_state(block_state(CHANNELS, RATE), "b", CHANNELS, RATE).residuals:
        x = x + residual.pointwise(residual.second_snake(padded(residual.dilated, residual.first_snake(x))))
    return x


def test_streams_of_different_ages_in_one_batch_equal_the_whole_without_its_first_columns() -> None:
    block = Block.from_state(block_state(CHANNELS, RATE), "b", CHANNELS, RATE)
    arena = StateArena(SHAPES, 2, torch.device("cpu"))
    slots = torch.tensor([arena.acquire(), arena.acquire()])
    waves = torch.randn(2, CHANNELS, 12, generator=torch.Generator().manual_seed(3))
    made: list[list[torch.Tensor]] = [[], []]

    def run(rows: list[int], starts: list[int], columns: int, warm: list[float]) -> None:
        chunk = torch.stack([waves[row, :, start : start + columns] for row, start in zip(rows, starts, strict=True)])
        trim = StartTrim(0, torch.tensor(warm).view(-1, 1, 1)).upsampled(RATE)
        out = block(chunk, Carry(arena.views, slots[rows]), "block", trim)
        for row, each in zip(rows, out, strict=True):
            made[row].append(each)

    run([0], [0], 4, [0.0])
    run([0, 1], [4, 0], 8, [1.0, 0.0])
    run([1], [8], 4, [1.0])
    for row, wave in enumerate(waves):
        whole = torch.cat(made[row], -1)
        assert torch.equal(whole[:, :RATE], torch.zeros(CHANNELS // 2, RATE)), row
        assert torch.allclose(whole[:, RATE:], trimmed(wave[None])[0], atol=1e-5), row
