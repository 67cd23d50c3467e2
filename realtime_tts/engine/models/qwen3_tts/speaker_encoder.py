"""Whose voice is it?  A recording to an x-vector, by ECAPA-TDNN (arXiv 2005.07143) over a log-mel spectrogram."""

from collections.abc import Callable, Sequence
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

    def encode(self, samples: Samples) -> Tensor:
        """(n,) samples at 24 kHz, n ≥ `min_samples`, to [enc_dim]: a vector for the Talker, on its device."""
        return self.encode_all([samples])[0]

    @torch.no_grad()
    def encode_all(self, recordings: Sequence[Samples]) -> Tensor:
        """Recordings of any lengths, in one pass, to [len(recordings), enc_dim].

        A short one is padded to the longest, and told apart from its padding in every layer: it is mirrored at its own
        end, and pooled over its own length.  So its vector is what it would be alone, but for the rounding of sums.
        """
        mels = [self._mel(samples) for samples in recordings]
        lengths = [each.shape[1] for each in mels]
        batch = torch.nn.utils.rnn.pad_sequence([each.T for each in mels], batch_first=True).transpose(1, 2)
        return self._weights.encode(batch, None if len(set(lengths)) == 1 else Lengths(lengths, batch.device))

    def _mel(self, samples: Samples) -> Tensor:
        if samples.ndim != 1 or len(samples) < self.min_samples:
            raise ValueError(f"a recording must have {self.min_samples} samples or more, got {samples.shape}")
        wave = torch.from_numpy(np.ascontiguousarray(samples, np.float32)).to(self._filters.device)
        return mel.log_mel(wave, self._filters)


class Lengths:
    """How far each row of a batch goes, and what that means for a layer.  Behind it there may be anything finite."""

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        self._lengths = torch.tensor(lengths, device=device)[:, None]
        self.there = (torch.arange(max(lengths), device=device) < self._lengths)[:, None]
        """[B, 1, T]"""
        self.shares = self.there / self._lengths[:, :, None]
        """[B, 1, T]: what each moment counts in a mean."""

    def mirrored(self, x: Tensor, before: int, after: int) -> Tensor:
        """[B, C, T] to [B, C, before + T + after], each row mirrored at its first moment, and at its own last."""
        places = torch.arange(-before, x.shape[-1] + after, device=x.device).abs()
        last = self._lengths - 1
        places = torch.where(places > last, 2 * last - places, places).clamp(min=0)
        return x.gather(2, places[:, None].expand(-1, x.shape[1], -1))


def _mirrored(x: Tensor, before: int, after: int, lengths: Lengths | None) -> Tensor:
    return functional.pad(x, (before, after), "reflect") if lengths is None else lengths.mirrored(x, before, after)


def _mean(x: Tensor, lengths: Lengths | None) -> Tensor:
    return x.mean(2, keepdim=True) if lengths is None else (x * lengths.shares).sum(2, keepdim=True)


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

    def __call__(self, x: Tensor, lengths: Lengths | None = None) -> Tensor:
        """[B, inputs, T] to [B, outputs, T]; `lengths` where the rows are not all of T moments."""
        reach = self.conv.left
        padded = _mirrored(x, reach // 2, reach - reach // 2, lengths) if reach else x
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

    def __call__(self, x: Tensor, lengths: Lengths | None) -> Tensor:
        head, *rest = self.first(x, lengths).chunk(len(self.groups) + 1, 1)
        heard = [head]
        for n, (group, part) in enumerate(zip(self.groups, rest, strict=True)):
            heard.append(group(part + heard[-1] if n else part, lengths))
        y = self.last(torch.cat(heard, 1), lengths)
        return x + y * self.excite(self.squeeze(_mean(y, lengths)))


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

    def encode(self, x: Tensor, lengths: Lengths | None = None) -> Tensor:
        """[B, bands, T] to [B, enc_dim]; `lengths` where the rows are not all of T moments."""
        x = self.first(x, lengths)
        outputs = []
        for block in self.blocks:
            x = block(x, lengths)
            outputs.append(x)
        x = self.join(torch.cat(outputs, 1), lengths)
        shares = x.new_full((1, 1, x.shape[-1]), 1 / x.shape[-1]) if lengths is None else lengths.shares
        mean, deviation = _statistics(x, shares)
        context = torch.cat((x, mean.expand_as(x), deviation.expand_as(x)), 1)
        scores = self.weigh(self.attend(context))
        if lengths is not None:
            scores = scores.masked_fill(~lengths.there, -torch.inf)
        pooled = torch.cat(_statistics(x, scores.softmax(2)), 1)
        return self.project(pooled)[:, :, 0]


def _relu_tanh(x: Tensor) -> Tensor:
    return x.relu().tanh()


def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The weighted mean and standard deviation over time, [B, C, 1] each."""
    mean = (weights * x).sum(2, keepdim=True)
    variance = (weights * (x - mean).square()).sum(2, keepdim=True)
    return mean, variance.clamp(min=1e-12).sqrt()
