"""Layers of the codec: causal convolutions, attention with rotary positions, and the reading of their weights.

Every layer is causal: with the inputs before its chunk it gives the same outputs as for the whole stream.  Shapes: B
rows (streams), C channels, T steps; [B, C, T] for convolutions, [B, T, C] for attention.
"""

from collections.abc import MutableMapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from realtime_tts.engine.models.qwen3.checkpoint import MetaState
from realtime_tts.errors import ModelNotUsable

StateDict = MutableMapping[str, Tensor]
"""A checkpoint's tensors by key.  Reading a tensor removes it, so that unused tensors remain."""


def pop_tensor(state: StateDict, key: str, shape: tuple[int, ...]) -> Tensor:
    """Removes a float tensor and returns it as fp32.  Raises ModelNotUsable if it is missing or has another shape."""
    tensor = state.pop(key, None)
    if tensor is None and isinstance(state, MetaState):
        return state.missing(key, shape)
    if tensor is None:
        raise ModelNotUsable(f"the checkpoint has no {key}, of shape {shape}")
    if tuple(tensor.shape) != shape:
        raise ModelNotUsable(f"the checkpoint's {key} has shape {tuple(tensor.shape)}, not {shape}")
    if not tensor.is_floating_point():
        raise ModelNotUsable(f"the checkpoint's {key} has dtype {tensor.dtype}, not a float dtype")
    return tensor.detach().float()


def pop_codebook(state: StateDict, prefix: str, embedding: str, size: int, width: int) -> Tensor:
    """The centroids [size, width] of a codebook that is stored as running sums and counts."""
    total = pop_tensor(state, f"{prefix}.{embedding}", (size, width))
    usage = pop_tensor(state, f"{prefix}.cluster_usage", (size,))
    return total / usage.clamp(min=1e-5)[:, None]


def reject_unused(state: StateDict, part: str) -> None:
    """Raises ModelNotUsable if tensors remain: the part then has an unknown structure."""
    if state:
        raise ModelNotUsable(f"the checkpoint's {part} has unknown tensors: {', '.join(sorted(state)[:5])}")


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution of stride 1 over an input that starts with its `left` earlier columns."""

    weight: Tensor
    bias: Tensor
    dilation: int = 1
    groups: int = 1

    @classmethod
    def from_state(
        cls, state: StateDict, key: str, inputs: int, outputs: int, width: int, dilation: int = 1, groups: int = 1
    ) -> "Conv":
        weight = pop_tensor(state, f"{key}.weight", (outputs, inputs // groups, width))
        return cls(weight, pop_tensor(state, f"{key}.bias", (outputs,)), dilation, groups)

    @property
    def left(self) -> int:
        """The number of earlier columns that it needs."""
        return (self.weight.shape[-1] - 1) * self.dilation

    def __call__(self, x: Tensor) -> Tensor:
        """[B, inputs, left + T] to [B, outputs, T]."""
        return functional.conv1d(x, self.weight, self.bias, dilation=self.dilation, groups=self.groups)


@dataclass(frozen=True, slots=True)
class Upsample:
    """A transposed convolution with a kernel of one or two strides, trimmed on the right.

    Output j of step t is W[j]·x[t] + W[rate + j]·x[t - 1] + b: a causal convolution with `rate` times the channels,
    whose outputs are then interleaved.  So it streams like any other convolution; adding overlapping pieces would add
    the bias twice.
    """

    conv: Conv
    rate: int

    @classmethod
    def from_state(cls, state: StateDict, key: str, inputs: int, outputs: int, rate: int, strides: int) -> "Upsample":
        weight = pop_tensor(state, f"{key}.weight", (inputs, outputs, strides * rate))
        bias = pop_tensor(state, f"{key}.bias", (outputs,))
        taps = weight.view(inputs, outputs, strides, rate).flip(2)  # the newest column is a convolution's last tap
        return cls(
            Conv(taps.permute(1, 3, 0, 2).reshape(outputs * rate, inputs, strides), bias.repeat_interleave(rate)), rate
        )

    def __call__(self, x: Tensor) -> Tensor:
        """[B, inputs, left + T] to [B, outputs, T * rate]."""
        y = self.conv(x)
        rows, channels, steps = y.shape
        return (
            y.view(rows, channels // self.rate, self.rate, steps).transpose(2, 3).reshape(rows, -1, steps * self.rate)
        )


@dataclass(frozen=True, slots=True)
class Snake:
    """x + sin²(x·e^α) / (e^β + 1e-9) for each channel; the exponentials are computed once, at loading."""

    frequency: Tensor
    gain: Tensor

    @classmethod
    def from_state(cls, state: StateDict, key: str, channels: int) -> "Snake":
        alpha = pop_tensor(state, f"{key}.alpha", (channels,))
        beta = pop_tensor(state, f"{key}.beta", (channels,))
        return cls(alpha.exp()[:, None], (1.0 / (beta.exp() + 1e-9))[:, None])

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addcmul(x, self.gain, (x * self.frequency).sin_().square_())


@dataclass(frozen=True, slots=True)
class Linear:
    weight: Tensor
    bias: Tensor | None = None

    @classmethod
    def from_state(cls, state: StateDict, key: str, inputs: int, outputs: int, bias: bool = False) -> "Linear":
        weight = pop_tensor(state, f"{key}.weight", (outputs, inputs))
        return cls(weight, pop_tensor(state, f"{key}.bias", (outputs,)) if bias else None)

    def scaled(self, scale: Tensor) -> "Linear":
        """The layer with its outputs times `scale`, which makes a LayerScale free."""
        return Linear(self.weight * scale[:, None], None if self.bias is None else self.bias * scale)

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class Norm:
    """RMSNorm without a bias, LayerNorm with one."""

    weight: Tensor
    bias: Tensor | None
    eps: float

    @classmethod
    def from_state(cls, state: StateDict, key: str, width: int, eps: float, bias: bool = False) -> "Norm":
        weight = pop_tensor(state, f"{key}.weight", (width,))
        return cls(weight, pop_tensor(state, f"{key}.bias", (width,)) if bias else None, eps)

    def __call__(self, x: Tensor) -> Tensor:
        if self.bias is None:
            return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps))
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention without biases; q, k and v are projected by one weight."""

    project: Linear
    out: Linear
    heads: int

    @classmethod
    def from_state(
        cls, state: StateDict, key: str, width: int, heads: int, head_size: int, scale: Tensor
    ) -> "Attention":
        inner = heads * head_size
        parts = [pop_tensor(state, f"{key}.{name}_proj.weight", (inner, width)) for name in "qkv"]
        out = Linear.from_state(state, f"{key}.o_proj", inner, width).scaled(scale)
        return cls(Linear(torch.cat(parts)), out, heads)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[B, T, width] to q, k and v of [B, heads, T, head_size], not rotated."""
        rows, steps, _ = x.shape
        q, k, v = self.project(x).view(rows, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        return q, k, v

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """[B, heads, T, head_size] to [B, T, width].  Without a mask it is causal."""
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.out(y.transpose(1, 2).flatten(2))


def rotations(positions: int, head_size: int, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines [positions, head_size] of the rotary embedding, for positions from 0.

    Computed on the device at each call: a copy from the host could not be captured in a CUDA graph.
    """
    halves = torch.arange(0, head_size, 2, dtype=torch.float64, device=device)
    angles = torch.arange(positions, device=device)[:, None] * theta ** (-halves / head_size)
    angles = torch.cat((angles, angles), -1)
    return angles.cos().float(), angles.sin().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates the halves of each head against each other: x [B, heads, T, head_size], cos and sin [T, head_size]."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin
