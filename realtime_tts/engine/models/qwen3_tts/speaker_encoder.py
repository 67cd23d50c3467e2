"""Whose voice is it?  A recording to an x-vector, by ECAPA-TDNN (arXiv 2005.07143) over a log-mel spectrogram."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from realtime_tts.engine.models.qwen3_tts import mel
from realtime_tts.engine.models.qwen3_tts.codec_config import SpeakerEncoderConfig
from realtime_tts.engine.models.qwen3_tts.codec_layers import Conv, State, move, refuse_leftovers

Samples = npt.NDArray[np.float32]
Activation = Callable[[Tensor], Tensor]


class SpeakerEncoder:
    """Makes the x-vectors of reference recordings.  Keeps nothing between calls."""

    def __init__(self, weights: "SpeakerWeights", filters: Tensor, min_samples: int) -> None:
        self._weights = weights
        self._filters = filters
        self.min_samples = min_samples
        """A shorter recording cannot be mirrored at its ends, and says little of a voice."""

    @classmethod
    def from_state(cls, config: SpeakerEncoderConfig, state: State, device: torch.device | str) -> Self:
        """From the checkpoint's `speaker_encoder.*`, without that prefix, all of it used up.  Raises ModelNotUsable."""
        place = torch.device(device)
        move(state, place)
        weights = SpeakerWeights.take(config, state)
        refuse_leftovers(state, "speaker_encoder")
        reach = max(
            (width - 1) * dilation
            for width, dilation in zip(config.enc_kernel_sizes, config.enc_dilations, strict=True)
        )
        mirrored = reach - reach // 2 + 1
        min_samples = max(mel.MIN_SAMPLES, mirrored * mel.HOP_SAMPLES)
        return cls(weights, mel.mel_filters(config.mel_dim).to(place), min_samples)

    @torch.no_grad()
    def encode(self, samples: Samples) -> Tensor:
        """(n,) samples at 24 kHz, n ≥ `min_samples`, to [enc_dim]: a vector for the Talker, on its device."""
        if samples.ndim != 1 or len(samples) < self.min_samples:
            raise ValueError(f"a recording must have {self.min_samples} samples or more, got {samples.shape}")
        wave = torch.from_numpy(np.ascontiguousarray(samples, np.float32)).to(self._filters.device)
        return self._weights.encode(mel.log_mel(wave, self._filters)[None])[0]


@dataclass(frozen=True, slots=True)
class Tdnn:
    """A convolution that keeps the length by mirroring its input, then `activation`."""

    conv: Conv
    activation: Activation = functional.relu

    @classmethod
    def take(
        cls,
        state: State,
        key: str,
        inputs: int,
        outputs: int,
        width: int = 1,
        dilation: int = 1,
        activation: Activation = functional.relu,
    ) -> "Tdnn":
        return cls(Conv.take(state, key, inputs, outputs, width, dilation), activation)

    def __call__(self, x: Tensor) -> Tensor:
        reach = self.conv.left
        padded = functional.pad(x, (reach // 2, reach - reach // 2), "reflect") if reach else x
        return self.activation(self.conv(padded))


def _as_it_is(x: Tensor) -> Tensor:
    return x


@dataclass(frozen=True, slots=True)
class SqueezedRes2Net:
    """Each group of channels also hears the group before it; then every channel is weighed by what all say."""

    first: Tdnn
    groups: tuple[Tdnn, ...]
    last: Tdnn
    squeeze: Tdnn
    excite: Tdnn

    @classmethod
    def take(cls, config: SpeakerEncoderConfig, state: State, n: int) -> "SqueezedRes2Net":
        key, width, scale = f"blocks.{n}", config.enc_channels[n], config.enc_res2net_scale
        kernel, dilation, part = config.enc_kernel_sizes[n], config.enc_dilations[n], width // config.enc_res2net_scale
        squeezed = config.enc_se_channels
        return cls(
            Tdnn.take(state, f"{key}.tdnn1.conv", width, width),
            tuple(
                Tdnn.take(state, f"{key}.res2net_block.blocks.{group}.conv", part, part, kernel, dilation)
                for group in range(scale - 1)
            ),
            Tdnn.take(state, f"{key}.tdnn2.conv", width, width),
            Tdnn.take(state, f"{key}.se_block.conv1", width, squeezed),
            Tdnn.take(state, f"{key}.se_block.conv2", squeezed, width, activation=torch.sigmoid),
        )

    def __call__(self, x: Tensor) -> Tensor:
        head, *rest = self.first(x).chunk(len(self.groups) + 1, 1)
        heard = [head]
        for n, (group, part) in enumerate(zip(self.groups, rest, strict=True)):
            heard.append(group(part + heard[-1] if n else part))
        y = self.last(torch.cat(heard, 1))
        return x + y * self.excite(self.squeeze(y.mean(2, keepdim=True)))


@dataclass(frozen=True, slots=True)
class SpeakerWeights:
    first: Tdnn
    blocks: tuple[SqueezedRes2Net, ...]
    join: Tdnn
    attend: Tdnn
    weigh: Tdnn
    project: Tdnn

    @classmethod
    def take(cls, config: SpeakerEncoderConfig, state: State) -> "SpeakerWeights":
        channels, kernels, dilations = config.enc_channels, config.enc_kernel_sizes, config.enc_dilations
        last, attention = channels[-1], config.enc_attention_channels
        return cls(
            Tdnn.take(state, "blocks.0.conv", config.mel_dim, channels[0], kernels[0], dilations[0]),
            tuple(SqueezedRes2Net.take(config, state, n) for n in range(1, len(channels) - 1)),
            Tdnn.take(state, "mfa.conv", last, last, kernels[-1], dilations[-1]),
            Tdnn.take(state, "asp.tdnn.conv", 3 * last, attention, activation=_relu_tanh),
            Tdnn.take(state, "asp.conv", attention, last, activation=_as_it_is),
            Tdnn.take(state, "fc", 2 * last, config.enc_dim, activation=_as_it_is),
        )

    def encode(self, x: Tensor) -> Tensor:
        """[B, bands, T] to [B, enc_dim]."""
        x = self.first(x)
        outputs = []
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        x = self.join(torch.cat(outputs, 1))
        mean, deviation = _statistics(x, x.new_full((1, 1, x.shape[-1]), 1 / x.shape[-1]))
        context = torch.cat((x, mean.expand_as(x), deviation.expand_as(x)), 1)
        pooled = torch.cat(_statistics(x, self.weigh(self.attend(context)).softmax(2)), 1)
        return self.project(pooled)[:, :, 0]


def _relu_tanh(x: Tensor) -> Tensor:
    return x.relu().tanh()


def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The weighted mean and standard deviation over time, [B, C, 1] each."""
    mean = (weights * x).sum(2, keepdim=True)
    variance = (weights * (x - mean).square()).sum(2, keepdim=True)
    return mean, variance.clamp(min=1e-12).sqrt()
