"""Encoder of the 12 Hz codec, recordings to codes: that of Mimi (arXiv 2410.00037).

Convolutions reduce 24 kHz to 25 Hz, a causal transformer follows, one more convolution halves the rate, and 16
codebooks quantize one after the other the residual of those before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from realtime_tts.engine.models.qwen3.codec.layers import (
    Attention,
    Conv,
    Linear,
    Norm,
    StateDict,
    pop_codebook,
    pop_tensor,
    reject_unused,
    rotate,
    rotations,
)
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecConfig, CodecEncoderConfig

Samples = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]


class CodecEncoder:
    """Computes the codes of reference recordings.  Stateless between calls."""

    def __init__(self, weights: "EncoderWeights", device: torch.device) -> None:
        self._weights = weights
        self._device = device

    @classmethod
    def from_state(cls, config: CodecConfig, state: StateDict, device: torch.device) -> Self:
        """From the checkpoint's `encoder.*` on `device`, without that prefix.  Raises ModelNotUsable.

        Attention is unlimited although the config has `sliding_window: 250`, as in the reference (`qwen-tts` 0.1.1 on
        transformers 4.57.3), which ignores that entry unless flash attention runs.  For recordings of up to 10 s there
        is no difference.
        """
        weights = EncoderWeights.from_state(config, state)
        reject_unused(state, "encoder")
        return cls(weights, device)

    @torch.no_grad()
    def encode(self, recordings: Sequence[Samples]) -> list[Codes]:
        """Recordings at 24 kHz of any lengths n ≥ 1, in one pass, to their (⌈n / 1920⌉, 16) codes, as in the reference.

        Every layer is causal, except that each layer with a stride pads the end of a recording.  So a short recording
        is padded to the longest, and before each such layer to its own length as if it were alone.
        """
        if any(samples.ndim != 1 or not samples.size for samples in recordings):
            shapes = [samples.shape for samples in recordings]
            raise ValueError(f"a recording must have the shape (samples,), got {shapes}")
        waves = [torch.from_numpy(np.ascontiguousarray(samples, np.float32)).to(self._device) for samples in recordings]
        lengths = [len(wave) for wave in waves]
        batch = torch.nn.utils.rnn.pad_sequence(waves, batch_first=True)[:, None]
        unequal = torch.tensor(lengths, device=self._device) if len(set(lengths)) > 1 else None
        codes = self._weights.encode(batch, unequal).cpu().numpy()
        frame = self._weights.config.samples_per_frame
        return [row[: -(-length // frame)].copy() for row, length in zip(codes, lengths, strict=True)]


@dataclass(frozen=True, slots=True)
class Downsample:
    """A causal convolution with a stride; `pad_mode` is that of the start and the end of a recording."""

    conv: Conv
    stride: int = 1
    pad_mode: str = "constant"

    def __call__(self, x: Tensor) -> Tensor:
        """[B, inputs, T] to [B, outputs, ⌈T / stride⌉]."""
        before = self.conv.left + 1 - self.stride
        padded = functional.pad(x, (before, -x.shape[-1] % self.stride), self.pad_mode)
        conv = self.conv
        return functional.conv1d(padded, conv.weight, conv.bias, self.stride, dilation=conv.dilation)


@dataclass(frozen=True, slots=True)
class Residual:
    squeeze: Downsample
    widen: Downsample

    def __call__(self, x: Tensor) -> Tensor:
        return x + self.widen(functional.elu(self.squeeze(functional.elu(x))))


@dataclass(frozen=True, slots=True)
class Layer:
    before_attention: Norm
    attention: Attention
    before_mlp: Norm
    wide: Linear
    narrow: Linear

    @classmethod
    def from_state(cls, config: CodecEncoderConfig, state: StateDict, key: str) -> "Layer":
        width = config.hidden_size
        scale = pop_tensor(state, f"{key}.self_attn_layer_scale.scale", (width,))
        mlp_scale = pop_tensor(state, f"{key}.mlp_layer_scale.scale", (width,))
        return cls(
            Norm.from_state(state, f"{key}.input_layernorm", width, config.norm_eps, bias=True),
            Attention.from_state(state, f"{key}.self_attn", width, config.num_attention_heads, config.head_size, scale),
            Norm.from_state(state, f"{key}.post_attention_layernorm", width, config.norm_eps, bias=True),
            Linear.from_state(state, f"{key}.mlp.fc1", width, config.intermediate_size),
            Linear.from_state(state, f"{key}.mlp.fc2", config.intermediate_size, width).scaled(mlp_scale),
        )

    def __call__(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = self.attention.split(self.before_attention(x))
        x = x + self.attention.attend(rotate(q, cos, sin), rotate(k, cos, sin), v)
        return x + self.narrow(functional.gelu(self.wide(self.before_mlp(x))))


@dataclass(frozen=True, slots=True)
class Quantizer:
    """Residual vector quantizer: each code is that of the codebook entry nearest to the remaining residual."""

    project: Tensor
    centroids: tuple[Tensor, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """[B, hidden, T] to [B, T, books]."""
        residual = functional.conv1d(x, self.project).transpose(1, 2)
        codes = []
        for centroids in self.centroids:
            nearest = torch.cdist(residual, centroids.expand(len(residual), -1, -1)).argmin(-1)
            residual = residual - functional.embedding(nearest, centroids)
            codes.append(nearest)
        return torch.stack(codes, -1)


@dataclass(frozen=True, slots=True)
class EncoderWeights:
    config: CodecEncoderConfig
    first: Downsample
    stages: tuple[tuple[tuple[Residual, ...], Downsample], ...]
    last: Downsample
    layers: tuple[Layer, ...]
    halve: Downsample
    semantic: Quantizer
    acoustic: Quantizer

    @classmethod
    def from_state(cls, config: CodecConfig, state: StateDict) -> "EncoderWeights":
        encoder, kept = config.encoder_config, config.encoder_valid_num_quantizers
        hidden = encoder.hidden_size
        stages, index, channels = _stages(encoder, state)
        first = Conv.from_state(state, "encoder.layers.0.conv", 1, encoder.num_filters, encoder.kernel_size)
        last = Conv.from_state(state, f"encoder.layers.{index}.conv", channels, hidden, encoder.last_kernel_size)
        halve = pop_tensor(state, "downsample.conv.weight", (hidden, hidden, 4))
        return cls(
            encoder,
            Downsample(first),
            stages,
            Downsample(last),
            tuple(
                Layer.from_state(encoder, state, f"encoder_transformer.layers.{n}")
                for n in range(encoder.num_hidden_layers)
            ),
            Downsample(Conv(halve, halve.new_zeros(hidden)), 2, "replicate"),
            _quantizer(encoder, state, "semantic", 1, 1),
            _quantizer(encoder, state, "acoustic", encoder.num_quantizers - 1, kept - 1),
        )

    def encode(self, wave: Tensor, lengths: Tensor | None) -> Tensor:
        """[B, 1, samples] to [B, frames, 16]; `lengths` [B] unless all rows have the same length."""
        x = self.first(wave)
        for residuals, down in self.stages:
            for residual in residuals:
                x = residual(x)
            x = down(_zero_padding(functional.elu(x), lengths))
            lengths = None if lengths is None else (lengths + down.stride - 1) // down.stride
        x = self._transform(self.last(functional.elu(x)).transpose(1, 2))
        x = self.halve(_repeat_last(x.transpose(1, 2), lengths))
        return torch.cat((self.semantic(x), self.acoustic(x)), -1)

    def _transform(self, x: Tensor) -> Tensor:
        cos, sin = rotations(x.shape[1], self.config.head_size, self.config.rope_theta, x.device)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return x


def _zero_padding(x: Tensor, lengths: Tensor | None) -> Tensor:
    """[B, C, T] with zeros after each row's end."""
    if lengths is None:
        return x
    return x * (torch.arange(x.shape[-1], device=x.device) < lengths[:, None])[:, None]


def _repeat_last(x: Tensor, lengths: Tensor | None) -> Tensor:
    """[B, C, T] with each row's last column repeated after its end."""
    if lengths is None:
        return x
    steps = torch.minimum(torch.arange(x.shape[-1], device=x.device), lengths[:, None] - 1)
    return x.gather(2, steps[:, None].expand_as(x))


def _stages(
    config: CodecEncoderConfig, state: StateDict
) -> tuple[tuple[tuple[tuple[Residual, ...], Downsample], ...], int, int]:
    """The stages, the index of the layer after them, and its channels.  Activations count as layers."""
    stages, index, channels = [], 1, config.num_filters
    for rate in reversed(config.upsampling_ratios):
        residuals = []
        for n in range(config.num_residual_layers):
            residuals.append(
                _residual(config, state, f"encoder.layers.{index}", channels, config.dilation_growth_rate**n)
            )
            index += 1
        down = Conv.from_state(state, f"encoder.layers.{index + 1}.conv", channels, 2 * channels, 2 * rate)
        stages.append((tuple(residuals), Downsample(down, rate)))
        channels, index = 2 * channels, index + 2
    return tuple(stages), index + 1, channels


def _residual(config: CodecEncoderConfig, state: StateDict, key: str, channels: int, dilation: int) -> Residual:
    narrow, width = channels // config.compress, config.residual_kernel_size
    squeeze = Conv.from_state(state, f"{key}.block.1.conv", channels, narrow, width, dilation)
    return Residual(Downsample(squeeze), Downsample(Conv.from_state(state, f"{key}.block.3.conv", narrow, channels, 1)))


def _quantizer(config: CodecEncoderConfig, state: StateDict, part: str, books: int, kept: int) -> Quantizer:
    """Reads all codebooks and keeps the first `kept`, since the others are not used."""
    key, width, hidden = f"quantizer.{part}_residual_vector_quantizer", config.codebook_dim, config.hidden_size
    project = pop_tensor(state, f"{key}.input_proj.weight", (width, hidden, 1))
    pop_tensor(state, f"{key}.output_proj.weight", (hidden, width, 1))  # only a decoder would use it
    centroids = []
    for n in range(books):
        book = f"{key}.layers.{n}.codebook"
        pop_tensor(state, f"{book}.initialized", (1,))
        centroids.append(pop_codebook(state, book, "embed_sum", config.codebook_size, width))
    return Quantizer(project, tuple(centroids[:kept]))
