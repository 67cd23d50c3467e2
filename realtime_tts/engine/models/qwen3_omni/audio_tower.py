"""Audio tower: a mel spectrogram to embeddings, 13 for each second."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_omni.config import AudioTowerConfig
from realtime_tts.engine.models.qwen3_omni.tower_layers import Affine, LayerNorm, attend

PREFIX = "thinker.audio_tower."
LAYER_NORM_EPS = 1e-5
CHUNKS_AT_ONCE = 64
"""Seconds that are convolved together, which bounds the memory."""


def audio_tokens(mel_frames: int, chunk_frames: int = 100) -> int:
    """The embeddings of so many mel frames: each of three convolutions halves a chunk and rounds up."""
    chunks, rest = divmod(mel_frames, chunk_frames)
    return chunks * _halved(chunk_frames) + _halved(rest)


def _halved(frames: int) -> int:
    for _ in range(3):
        frames = (frames + 1) // 2
    return frames


@dataclass(frozen=True, slots=True)
class _Layer:
    before_attention: LayerNorm
    query: Affine
    key: Affine
    value: Affine
    out: Affine
    before_mlp: LayerNorm
    expand: Affine
    project: Affine

    def __call__(self, x: torch.Tensor, heads: int, window: int) -> torch.Tensor:
        normed = self.before_attention(x)
        query, key, value = (each(normed).view(len(x), heads, -1) for each in (self.query, self.key, self.value))
        x = x + self.out(attend(query, key, value, window))
        return x + self.project(F.gelu(self.expand(self.before_mlp(x))))


@dataclass(frozen=True, slots=True)
class AudioTower:
    """Seconds are convolved each alone, and attention stays within windows of 8 s.

    The reference pads a short last second with zeros to the longest one of its batch before the convolutions, whose
    biases then reach its last embeddings.  Here that is done whenever the clip has a whole second: a clip has the
    values that it has alone in the reference.
    """

    config: AudioTowerConfig
    convolutions: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    conv_out: torch.Tensor
    layers: tuple[_Layer, ...]
    norm: LayerNorm
    first: Affine
    second: Affine
    positions: torch.Tensor
    """(tokens of a second, width): they begin again with each second."""

    @torch.inference_mode()
    def __call__(self, mel: npt.NDArray[np.float32]) -> torch.Tensor:
        """(128, frames) to (tokens, hidden)."""
        chunk = self.config.chunk_frames
        columns = torch.from_numpy(mel).to(self.conv_out)
        frames = columns.shape[1]
        if frames > chunk:
            columns = F.pad(columns, (0, -frames % chunk))
        chunks = columns.view(columns.shape[0], -1, min(chunk, columns.shape[1])).transpose(0, 1)
        x = torch.cat([self._convolve(part) for part in torch.split(chunks, CHUNKS_AT_ONCE)])
        x = (x + self.positions[: x.shape[1]]).flatten(0, 1)[: audio_tokens(frames, chunk)]
        window = audio_tokens(self.config.n_window_infer, chunk)
        for layer in self.layers:
            x = layer(x, self.config.encoder_attention_heads, window)
        return self.second(F.gelu(self.first(self.norm(x))))

    def _convolve(self, chunks: torch.Tensor) -> torch.Tensor:
        """(n, 128, frames) to (n, tokens, width)."""
        x = chunks[:, None]
        for weight, bias in self.convolutions:
            x = F.gelu(F.conv2d(x, weight, bias, stride=2, padding=1))
        return F.linear(x.permute(0, 3, 1, 2).flatten(2), self.conv_out)


def load_audio_tower(checkpoint: Checkpoint, config: AudioTowerConfig) -> AudioTower:
    """Raises ModelNotUsable."""
    width, inner, channels = config.d_model, config.encoder_ffn_dim, config.downsample_hidden_size

    def affine(name: str, outputs: int, inputs: int) -> Affine:
        return Affine.load(checkpoint, f"{PREFIX}{name}", outputs, inputs)

    def norm(name: str) -> LayerNorm:
        return LayerNorm.load(checkpoint, f"{PREFIX}{name}", width, LAYER_NORM_EPS)

    def convolution(number: int, inputs: int) -> tuple[torch.Tensor, torch.Tensor]:
        name = f"{PREFIX}conv2d{number}"
        return checkpoint.read(f"{name}.weight", (channels, inputs, 3, 3)), checkpoint.read(f"{name}.bias", (channels,))

    convolutions = convolution(1, 1), convolution(2, channels), convolution(3, channels)
    conv_out = checkpoint.read(f"{PREFIX}conv_out.weight", (width, channels * _halved(config.num_mel_bins)))
    return AudioTower(
        config=config,
        convolutions=convolutions,
        conv_out=conv_out,
        layers=tuple(_load_layer(f"layers.{n}.", width, inner, affine, norm) for n in range(config.encoder_layers)),
        norm=norm("ln_post"),
        first=affine("proj1", width, width),
        second=affine("proj2", config.output_dim, width),
        positions=_sinusoids(_halved(config.chunk_frames), width).to(conv_out),
    )


def _load_layer(
    name: str, width: int, inner: int, affine: Callable[[str, int, int], Affine], norm: Callable[[str], LayerNorm]
) -> _Layer:
    return _Layer(
        before_attention=norm(f"{name}self_attn_layer_norm"),
        query=affine(f"{name}self_attn.q_proj", width, width),
        key=affine(f"{name}self_attn.k_proj", width, width),
        value=affine(f"{name}self_attn.v_proj", width, width),
        out=affine(f"{name}self_attn.out_proj", width, width),
        before_mlp=norm(f"{name}final_layer_norm"),
        expand=affine(f"{name}fc1", inner, width),
        project=affine(f"{name}fc2", width, inner),
    )


def _sinusoids(positions: int, width: int) -> torch.Tensor:
    """(positions, width): sines, then cosines, of geometric wavelengths up to 10000."""
    half = width // 2
    rates = torch.exp(-np.log(10_000) / (half - 1) * torch.arange(half).double())
    angles = torch.arange(positions)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1).float()
