"""Layers of the audio and vision towers."""

from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class Affine:
    """A linear layer with a bias."""

    weight: torch.Tensor
    bias: torch.Tensor

    @classmethod
    def load(cls, checkpoint: Checkpoint, name: str, outputs: int, inputs: int) -> Self:
        return cls(checkpoint.read(f"{name}.weight", (outputs, inputs)), checkpoint.read(f"{name}.bias", (outputs,)))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class LayerNorm:
    weight: torch.Tensor
    bias: torch.Tensor
    eps: float

    @classmethod
    def load(cls, checkpoint: Checkpoint, name: str, width: int, eps: float) -> Self:
        return cls(checkpoint.read(f"{name}.weight", (width,)), checkpoint.read(f"{name}.bias", (width,)), eps)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, window: int | None = None) -> torch.Tensor:
    """(n, heads, width of a head) each to (n, heads · width), within windows of so many positions or among all."""
    length = len(query)
    whole = 0 if window is None else length // window * window
    parts = []
    if window is not None and whole:
        windows = [x[:whole].reshape(-1, window, *x.shape[1:]) for x in (query, key, value)]
        parts.append(_attend(*windows).flatten(0, 1))
    if whole < length:
        parts.append(_attend(query[None, whole:], key[None, whole:], value[None, whole:])[0])
    return torch.cat(parts)


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """(windows, n, heads, width of a head) each to (windows, n, heads · width)."""
    attended = F.scaled_dot_product_attention(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2))
    return attended.transpose(1, 2).flatten(2)
