"""The codec's building stones: weights taken by name, causal convolutions that continue, and sliding attention.

Everything is causal, so a layer that is given the inputs just before its chunk gives just what it would have given for
the whole stream.  Shapes: B rows (streams), C channels, T steps; [B, C, T] for convolutions, [B, T, C] for attention.
"""

from collections.abc import MutableMapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from realtime_tts.errors import ModelNotUsable

State = MutableMapping[str, Tensor]
"""A checkpoint's tensors by key.  Whoever takes one removes it, so that what is left over was not understood."""


def take(state: State, key: str, shape: tuple[int, ...]) -> Tensor:
    """Removes a tensor of floats and hands it over as fp32.  Raises ModelNotUsable where it is missing or different."""
    tensor = state.pop(key, None)
    if tensor is None:
        raise ModelNotUsable(f"the checkpoint has no {key}, of shape {shape}")
    if tuple(tensor.shape) != shape:
        raise ModelNotUsable(f"the checkpoint's {key} is of shape {tuple(tensor.shape)}, and not {shape}")
    if not tensor.is_floating_point():
        raise ModelNotUsable(f"the checkpoint's {key} is of {tensor.dtype}, and not of floats")
    return tensor.detach().float()


def take_codebook(state: State, prefix: str, embedding: str, size: int, width: int) -> Tensor:
    """The centroids [size, width] of a codebook that is kept as running sums and counts."""
    total = take(state, f"{prefix}.{embedding}", (size, width))
    usage = take(state, f"{prefix}.cluster_usage", (size,))
    return total / usage.clamp(min=1e-5)[:, None]


def move(state: State, device: torch.device) -> None:
    """Puts every tensor on the device, so that whatever is made of them is there too."""
    for key in state:
        state[key] = state[key].to(device)


def refuse_leftovers(state: State, part: str) -> None:
    """Raises ModelNotUsable where a part has tensors that it made no use of: it is not the part that we know."""
    if state:
        raise ModelNotUsable(f"the checkpoint's {part} holds what is not known here: {', '.join(sorted(state)[:5])}")


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution of stride 1 over an input that already has its `left` earlier columns in front."""

    weight: Tensor
    bias: Tensor
    dilation: int = 1
    groups: int = 1

    @classmethod
    def take(
        cls, state: State, key: str, inputs: int, outputs: int, width: int, dilation: int = 1, groups: int = 1
    ) -> "Conv":
        weight = take(state, f"{key}.weight", (outputs, inputs // groups, width))
        return cls(weight, take(state, f"{key}.bias", (outputs,)), dilation, groups)

    @property
    def left(self) -> int:
        """Earlier columns needed."""
        return (self.weight.shape[-1] - 1) * self.dilation

    def __call__(self, x: Tensor) -> Tensor:
        """[B, inputs, left + T] to [B, outputs, T]."""
        return functional.conv1d(x, self.weight, self.bias, dilation=self.dilation, groups=self.groups)


@dataclass(frozen=True, slots=True)
class Upsample:
    """A transposed convolution whose kernel is one or two strides wide, its right surplus trimmed.

    Output j of step t is W[j]·x[t] + W[rate + j]·x[t - 1] + b: a plain causal convolution with `rate` times the
    channels, its outputs then laid one after the other.  So it continues like any other; adding overlapping pieces
    would add the bias twice.
    """

    conv: Conv
    rate: int

    @classmethod
    def take(cls, state: State, key: str, inputs: int, outputs: int, rate: int, strides: int) -> "Upsample":
        weight = take(state, f"{key}.weight", (inputs, outputs, strides * rate))
        bias = take(state, f"{key}.bias", (outputs,))
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
    """x + sin²(x·e^α) / (e^β + 1e-9), for each channel; the exponentials are worked out once, at loading."""

    frequency: Tensor
    gain: Tensor

    @classmethod
    def take(cls, state: State, key: str, channels: int) -> "Snake":
        alpha = take(state, f"{key}.alpha", (channels,))
        beta = take(state, f"{key}.beta", (channels,))
        return cls(alpha.exp()[:, None], (1.0 / (beta.exp() + 1e-9))[:, None])

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addcmul(x, self.gain, (x * self.frequency).sin_().square_())


@dataclass(frozen=True, slots=True)
class Linear:
    weight: Tensor
    bias: Tensor | None = None

    @classmethod
    def take(cls, state: State, key: str, inputs: int, outputs: int, bias: bool = False) -> "Linear":
        weight = take(state, f"{key}.weight", (outputs, inputs))
        return cls(weight, take(state, f"{key}.bias", (outputs,)) if bias else None)

    def scaled(self, scale: Tensor) -> "Linear":
        """With its outputs times `scale`: a LayerScale costs nothing then."""
        return Linear(self.weight * scale[:, None], None if self.bias is None else self.bias * scale)

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class Norm:
    """RMSNorm where there is no bias, else LayerNorm."""

    weight: Tensor
    bias: Tensor | None
    eps: float

    @classmethod
    def take(cls, state: State, key: str, width: int, eps: float, bias: bool = False) -> "Norm":
        weight = take(state, f"{key}.weight", (width,))
        return cls(weight, take(state, f"{key}.bias", (width,)) if bias else None, eps)

    def __call__(self, x: Tensor) -> Tensor:
        if self.bias is None:
            return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps))
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention without biases, its projections of q, k and v made in one product."""

    project: Linear
    out: Linear
    heads: int

    @classmethod
    def take(cls, state: State, key: str, width: int, heads: int, head_size: int, scale: Tensor) -> "Attention":
        inner = heads * head_size
        parts = [take(state, f"{key}.{name}_proj.weight", (inner, width)) for name in "qkv"]
        out = Linear.take(state, f"{key}.o_proj", inner, width).scaled(scale)
        return cls(Linear(torch.cat(parts)), out, heads)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[B, T, width] to q, k and v of [B, heads, T, head_size], not rotated."""
        rows, steps, _ = x.shape
        q, k, v = self.project(x).view(rows, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        return q, k, v

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.out(y.transpose(1, 2).flatten(2))


def rotations(positions: int, head_size: int, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines [positions, head_size] of the rotary embedding, for positions from 0.

    Made anew on the device: a few kernels, but none that copies from the host, which a CUDA graph could not capture.
    """
    halves = torch.arange(0, head_size, 2, dtype=torch.float64, device=device)
    angles = torch.arange(positions, device=device)[:, None] * theta ** (-halves / head_size)
    angles = torch.cat((angles, angles), -1)
    return angles.cos().float(), angles.sin().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns the first half of each head against the second: x [B, heads, T, head_size], cos and sin [T, head_size]."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin
