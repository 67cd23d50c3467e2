"""Speaker encoder: a recording to an x-vector, by ECAPA-TDNN (arXiv 2005.07143) over a log-mel spectrogram."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from realtime_tts.engine.models.qwen3.codec.layers import Conv, StateDict, reject_unused
from realtime_tts.engine.models.qwen3_tts import mel
from realtime_tts.engine.models.qwen3_tts.codec_config import SpeakerEncoderConfig

Samples = npt.NDArray[np.float32]
Activation = Callable[[Tensor], Tensor]


class SpeakerEncoder:
    """Computes the x-vectors of reference recordings.  Stateless between calls."""

    def __init__(self, weights: "SpeakerWeights", filters: Tensor, min_samples: int) -> None:
        self._weights = weights
        self._filters = filters
        self.min_samples = min_samples
        """A shorter recording cannot be reflected at its ends, and characterises a voice poorly."""

    @classmethod
    def from_state(cls, config: SpeakerEncoderConfig, state: StateDict, device: torch.device) -> Self:
        """From the checkpoint's `speaker_encoder.*` on `device`, without that prefix.  Raises ModelNotUsable."""
        weights = SpeakerWeights.from_state(config, state)
        reject_unused(state, "speaker_encoder")
        reach = max(
            (width - 1) * dilation
            for width, dilation in zip(config.enc_kernel_sizes, config.enc_dilations, strict=True)
        )
        min_frames = reach - reach // 2 + 1
        min_samples = max(mel.MIN_SAMPLES, min_frames * mel.HOP_SAMPLES)
        return cls(weights, mel.mel_filters(config.mel_dim).to(device), min_samples)

    @torch.no_grad()
    def encode(self, recordings: Sequence[Samples]) -> Tensor:
        """Recordings at 24 kHz of any lengths from `min_samples`, in one pass, to [len(recordings), enc_dim].

        Short recordings are padded to the longest, and every layer excludes the padding: it reflects each row at its
        own end, and pools over its own length.  So each vector equals that of the recording alone, up to rounding.
        """
        mels = [self._mel(samples) for samples in recordings]
        lengths = [each.shape[1] for each in mels]
        batch = torch.nn.utils.rnn.pad_sequence([each.T for each in mels], batch_first=True).transpose(1, 2)
        return self._weights.encode(batch, None if len(set(lengths)) == 1 else Lengths(lengths, batch.device))

    def _mel(self, samples: Samples) -> Tensor:
        if samples.ndim != 1 or len(samples) < self.min_samples:
            raise ValueError(f"a recording must have at least {self.min_samples} samples, got shape {samples.shape}")
        wave = torch.from_numpy(np.ascontiguousarray(samples, np.float32)).to(self._filters.device)
        return mel.log_mel(wave, self._filters)


class Lengths:
    """The lengths of a batch's rows, for layers that must exclude the padding, which may be any finite values."""

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        self._lengths = torch.tensor(lengths, device=device)[:, None]
        self.mask = (torch.arange(max(lengths), device=device) < self._lengths)[:, None]
        """[B, 1, T]: whether a step is within its row."""
        self.weights = self.mask / self._lengths[:, :, None]
        """[B, 1, T]: the weight of each step in a mean."""

    def reflect(self, x: Tensor, before: int, after: int) -> Tensor:
        """[B, C, T] to [B, C, before + T + after], each row reflected at its first step and at its own last."""
        steps = torch.arange(-before, x.shape[-1] + after, device=x.device).abs()
        last = self._lengths - 1
        steps = torch.where(steps > last, 2 * last - steps, steps).clamp(min=0)
        return x.gather(2, steps[:, None].expand(-1, x.shape[1], -1))


def _reflect(x: Tensor, before: int, after: int, lengths: Lengths | None) -> Tensor:
    return functional.pad(x, (before, after), "reflect") if lengths is None else lengths.reflect(x, before, after)


def _mean(x: Tensor, lengths: Lengths | None) -> Tensor:
    return x.mean(2, keepdim=True) if lengths is None else (x * lengths.weights).sum(2, keepdim=True)


@dataclass(frozen=True, slots=True)
class Tdnn:
    """A convolution over its reflected input, which keeps the length, then `activation`."""

    conv: Conv
    activation: Activation = functional.relu

    @classmethod
    def from_state(
        cls,
        state: StateDict,
        key: str,
        inputs: int,
        outputs: int,
        width: int = 1,
        dilation: int = 1,
        activation: Activation = functional.relu,
    ) -> "Tdnn":
        return cls(Conv.from_state(state, key, inputs, outputs, width, dilation), activation)

    def __call__(self, x: Tensor, lengths: Lengths | None = None) -> Tensor:
        """[B, inputs, T] to [B, outputs, T]; `lengths` unless all rows have T steps."""
        reach = self.conv.left
        padded = _reflect(x, reach // 2, reach - reach // 2, lengths) if reach else x
        return self.activation(self.conv(padded))


def _identity(x: Tensor) -> Tensor:
    return x


@dataclass(frozen=True, slots=True)
class SqueezedRes2Net:
    """Res2Net with squeeze and excitation: each group of channels also reads the output of the group before it."""

    first: Tdnn
    groups: tuple[Tdnn, ...]
    last: Tdnn
    squeeze: Tdnn
    excite: Tdnn

    @classmethod
    def from_state(cls, config: SpeakerEncoderConfig, state: StateDict, n: int) -> "SqueezedRes2Net":
        key, width, scale = f"blocks.{n}", config.enc_channels[n], config.enc_res2net_scale
        kernel, dilation, part = config.enc_kernel_sizes[n], config.enc_dilations[n], width // config.enc_res2net_scale
        squeezed = config.enc_se_channels
        return cls(
            Tdnn.from_state(state, f"{key}.tdnn1.conv", width, width),
            tuple(
                Tdnn.from_state(state, f"{key}.res2net_block.blocks.{group}.conv", part, part, kernel, dilation)
                for group in range(scale - 1)
            ),
            Tdnn.from_state(state, f"{key}.tdnn2.conv", width, width),
            Tdnn.from_state(state, f"{key}.se_block.conv1", width, squeezed),
            Tdnn.from_state(state, f"{key}.se_block.conv2", squeezed, width, activation=torch.sigmoid),
        )

    def __call__(self, x: Tensor, lengths: Lengths | None) -> Tensor:
        head, *rest = self.first(x, lengths).chunk(len(self.groups) + 1, 1)
        outputs = [head]
        for n, (group, part) in enumerate(zip(self.groups, rest, strict=True)):
            outputs.append(group(part + outputs[-1] if n else part, lengths))
        y = self.last(torch.cat(outputs, 1), lengths)
        return x + y * self.excite(self.squeeze(_mean(y, lengths)))


@dataclass(frozen=True, slots=True)
class SpeakerWeights:
    first: Tdnn
    blocks: tuple[SqueezedRes2Net, ...]
    aggregate: Tdnn
    attention: Tdnn
    scores: Tdnn
    project: Tdnn

    @classmethod
    def from_state(cls, config: SpeakerEncoderConfig, state: StateDict) -> "SpeakerWeights":
        channels, kernels, dilations = config.enc_channels, config.enc_kernel_sizes, config.enc_dilations
        last, attention = channels[-1], config.enc_attention_channels
        return cls(
            Tdnn.from_state(state, "blocks.0.conv", config.mel_dim, channels[0], kernels[0], dilations[0]),
            tuple(SqueezedRes2Net.from_state(config, state, n) for n in range(1, len(channels) - 1)),
            Tdnn.from_state(state, "mfa.conv", last, last, kernels[-1], dilations[-1]),
            Tdnn.from_state(state, "asp.tdnn.conv", 3 * last, attention, activation=_relu_tanh),
            Tdnn.from_state(state, "asp.conv", attention, last, activation=_identity),
            Tdnn.from_state(state, "fc", 2 * last, config.enc_dim, activation=_identity),
        )

    def encode(self, x: Tensor, lengths: Lengths | None = None) -> Tensor:
        """[B, bands, T] to [B, enc_dim]; `lengths` unless all rows have T steps."""
        x = self.first(x, lengths)
        outputs = []
        for block in self.blocks:
            x = block(x, lengths)
            outputs.append(x)
        x = self.aggregate(torch.cat(outputs, 1), lengths)
        weights = x.new_full((1, 1, x.shape[-1]), 1 / x.shape[-1]) if lengths is None else lengths.weights
        mean, deviation = _statistics(x, weights)
        context = torch.cat((x, mean.expand_as(x), deviation.expand_as(x)), 1)
        scores = self.scores(self.attention(context))
        if lengths is not None:
            scores = scores.masked_fill(~lengths.mask, -torch.inf)
        pooled = torch.cat(_statistics(x, scores.softmax(2)), 1)
        return self.project(pooled)[:, :, 0]


def _relu_tanh(x: Tensor) -> Tensor:
    return x.relu().tanh()


def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The weighted mean and standard deviation over time, [B, C, 1] each."""
    mean = (weights * x).sum(2, keepdim=True)
    variance = (weights * (x - mean).square()).sum(2, keepdim=True)
    return mean, variance.clamp(min=1e-12).sqrt()
