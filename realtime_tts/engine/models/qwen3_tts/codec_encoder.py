"""A recording to codes: the encoder of the 12 Hz codec, which is Mimi's (arXiv 2410.00037) without its decoder.

Convolutions take 24 kHz down to 25 Hz, a transformer looks back over that, one more convolution halves the rate, and 16
codebooks write down, one after the other, what the ones before left over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from realtime_tts.engine.models.qwen3_tts.codec_config import CodecConfig, CodecEncoderConfig
from realtime_tts.engine.models.qwen3_tts.codec_layers import (
    Attention,
    Conv,
    Linear,
    Norm,
    State,
    move,
    refuse_leftovers,
    rotate,
    rotations,
    take,
    take_codebook,
)

Samples = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]


class CodecEncoder:
    """Makes the codes of reference recordings.  Keeps nothing between calls."""

    def __init__(self, weights: "EncoderWeights", device: torch.device) -> None:
        self._weights = weights
        self._device = device

    @classmethod
    def from_state(
        cls, config: CodecConfig, state: State, device: torch.device | str, attention_window: int | None = None
    ) -> Self:
        """From the checkpoint's `encoder.*`, without that prefix, all of which is used up.  Raises ModelNotUsable.

        `attention_window` (in positions of 40 ms) cuts the attention off as `sliding_window: 250` says.  The reference
        (`qwen-tts` 0.1.1 on transformers 4.57.3) ignores that entry unless flash attention runs, so None is its way;
        for recordings of up to 10 s there is no difference.
        """
        place = torch.device(device)
        move(state, place)
        weights = EncoderWeights.take(config, state, attention_window)
        refuse_leftovers(state, "encoder")
        return cls(weights, place)

    def encode(self, samples: Samples) -> Codes:
        """(n,) samples at 24 kHz, n ≥ 1, to (⌈n / 1920⌉, 16) codes, the same as the reference's."""
        return self.encode_all([samples])[0]

    @torch.no_grad()
    def encode_all(self, recordings: Sequence[Samples]) -> list[Codes]:
        """Recordings of any lengths, in one pass: the codes of each are those that it has alone.

        Every layer looks back only, but for the end of a recording, which is padded wherever the rate goes down.  So a
        short one is padded to the longest, and before each such layer to its own length as if it were alone.
        """
        if any(samples.ndim != 1 or not samples.size for samples in recordings):
            shapes = [samples.shape for samples in recordings]
            raise ValueError(f"a recording must be of shape (samples,), got {shapes}")
        waves = [torch.from_numpy(np.ascontiguousarray(samples, np.float32)).to(self._device) for samples in recordings]
        lengths = [len(wave) for wave in waves]
        batch = torch.nn.utils.rnn.pad_sequence(waves, batch_first=True)[:, None]
        unequal = torch.tensor(lengths, device=self._device) if len(set(lengths)) > 1 else None
        codes = self._weights.encode(batch, unequal).cpu().numpy()
        frame = self._weights.config.samples_per_frame
        return [row[: -(-length // frame)].copy() for row, length in zip(codes, lengths, strict=True)]


@dataclass(frozen=True, slots=True)
class Downsample:
    """A causal convolution with a stride; `pad_mode` says what stands before the recording, and after its end."""

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
    def take(cls, config: CodecEncoderConfig, state: State, key: str) -> "Layer":
        width = config.hidden_size
        scale = take(state, f"{key}.self_attn_layer_scale.scale", (width,))
        mlp_scale = take(state, f"{key}.mlp_layer_scale.scale", (width,))
        return cls(
            Norm.take(state, f"{key}.input_layernorm", width, config.norm_eps, bias=True),
            Attention.take(state, f"{key}.self_attn", width, config.num_attention_heads, config.head_size, scale),
            Norm.take(state, f"{key}.post_attention_layernorm", width, config.norm_eps, bias=True),
            Linear.take(state, f"{key}.mlp.fc1", width, config.intermediate_size),
            Linear.take(state, f"{key}.mlp.fc2", config.intermediate_size, width).scaled(mlp_scale),
        )

    def __call__(self, x: Tensor, mask: Tensor | None, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = self.attention.split(self.before_attention(x))
        x = x + self.attention.mix(rotate(q, cos, sin), rotate(k, cos, sin), v, mask, causal=mask is None)
        return x + self.narrow(functional.gelu(self.wide(self.before_mlp(x))))


@dataclass(frozen=True, slots=True)
class Quantizer:
    """Writes a vector down as codes, each of the codebook entry that is nearest to what is left of it."""

    project: Tensor
    centroids: tuple[Tensor, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """[B, hidden, T] to [B, T, books]."""
        left = functional.conv1d(x, self.project).transpose(1, 2)
        found = []
        for centroids in self.centroids:
            nearest = torch.cdist(left, centroids.expand(len(left), -1, -1)).argmin(-1)
            left = left - functional.embedding(nearest, centroids)
            found.append(nearest)
        return torch.stack(found, -1)


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
    attention_window: int | None

    @classmethod
    def take(cls, config: CodecConfig, state: State, attention_window: int | None) -> "EncoderWeights":
        encoder, kept = config.encoder_config, config.encoder_valid_num_quantizers
        hidden = encoder.hidden_size
        stages, index, channels = _stages(encoder, state)
        first = Conv.take(state, "encoder.layers.0.conv", 1, encoder.num_filters, encoder.kernel_size)
        last = Conv.take(state, f"encoder.layers.{index}.conv", channels, hidden, encoder.last_kernel_size)
        halve = take(state, "downsample.conv.weight", (hidden, hidden, 4))
        return cls(
            encoder,
            Downsample(first),
            stages,
            Downsample(last),
            tuple(
                Layer.take(encoder, state, f"encoder_transformer.layers.{n}") for n in range(encoder.num_hidden_layers)
            ),
            Downsample(Conv(halve, halve.new_zeros(hidden)), 2, "replicate"),
            _quantizer(encoder, state, "semantic", 1, 1),
            _quantizer(encoder, state, "acoustic", encoder.num_quantizers - 1, kept - 1),
            attention_window,
        )

    def encode(self, wave: Tensor, lengths: Tensor | None) -> Tensor:
        """[B, 1, samples] to [B, frames, 16]; `lengths` [B] where the rows are not all of so many samples."""
        x = self.first(wave)
        for residuals, down in self.stages:
            for residual in residuals:
                x = residual(x)
            x = down(_ended(functional.elu(x), lengths))
            lengths = None if lengths is None else (lengths + down.stride - 1) // down.stride
        x = self._transform(self.last(functional.elu(x)).transpose(1, 2))
        x = self.halve(_held(x.transpose(1, 2), lengths))
        return torch.cat((self.semantic(x), self.acoustic(x)), -1)

    def _transform(self, x: Tensor) -> Tensor:
        positions = x.shape[1]
        cos, sin = rotations(positions, self.config.head_size, self.config.rope_theta, x.device)
        mask = None
        if self.attention_window is not None and positions > self.attention_window:
            place = torch.arange(positions, device=x.device)
            back = place[:, None] - place
            mask = (back >= 0) & (back < self.attention_window)
        for layer in self.layers:
            x = layer(x, mask, cos, sin)
        return x


def _ended(x: Tensor, lengths: Tensor | None) -> Tensor:
    """[B, C, T] with zeros after each row's end."""
    if lengths is None:
        return x
    return x * (torch.arange(x.shape[-1], device=x.device) < lengths[:, None])[:, None]


def _held(x: Tensor, lengths: Tensor | None) -> Tensor:
    """[B, C, T] with each row's last column repeated after its end."""
    if lengths is None:
        return x
    places = torch.minimum(torch.arange(x.shape[-1], device=x.device), lengths[:, None] - 1)
    return x.gather(2, places[:, None].expand_as(x))


def _stages(
    config: CodecEncoderConfig, state: State
) -> tuple[tuple[tuple[tuple[Residual, ...], Downsample], ...], int, int]:
    """The stages, then the index of the layer after them, and its channels.  Activations are counted as layers."""
    stages, index, channels = [], 1, config.num_filters
    for rate in reversed(config.upsampling_ratios):
        residuals = []
        for n in range(config.num_residual_layers):
            residuals.append(
                _residual(config, state, f"encoder.layers.{index}", channels, config.dilation_growth_rate**n)
            )
            index += 1
        down = Conv.take(state, f"encoder.layers.{index + 1}.conv", channels, 2 * channels, 2 * rate)
        stages.append((tuple(residuals), Downsample(down, rate)))
        channels, index = 2 * channels, index + 2
    return tuple(stages), index + 1, channels


def _residual(config: CodecEncoderConfig, state: State, key: str, channels: int, dilation: int) -> Residual:
    narrow, width = channels // config.compress, config.residual_kernel_size
    squeeze = Conv.take(state, f"{key}.block.1.conv", channels, narrow, width, dilation)
    return Residual(Downsample(squeeze), Downsample(Conv.take(state, f"{key}.block.3.conv", narrow, channels, 1)))


def _quantizer(config: CodecEncoderConfig, state: State, part: str, books: int, kept: int) -> Quantizer:
    """The codebooks after the first `kept` refine what is never asked for: they are taken, and dropped."""
    key, width, hidden = f"quantizer.{part}_residual_vector_quantizer", config.codebook_dim, config.hidden_size
    project = take(state, f"{key}.input_proj.weight", (width, hidden, 1))
    take(state, f"{key}.output_proj.weight", (hidden, width, 1))  # only a decoder would use it
    centroids = []
    for n in range(books):
        book = f"{key}.layers.{n}.codebook"
        take(state, f"{book}.initialized", (1,))
        centroids.append(take_codebook(state, book, "embed_sum", config.codebook_size, width))
    return Quantizer(project, tuple(centroids[:kept]))
