"""Decoder of the 12 Hz codec: codes to audio in chunks, equal to decoding the whole stream at once.

The decoder is causal.  So each layer keeps the few inputs before the chunk that it still needs (5.2 MB per stream), and
nothing is decoded twice: chunks of any size give the samples of the whole stream.

All values are fp32: in bf16 the exponents of SnakeBeta have given NaN.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from realtime_tts.engine.models.qwen3.codec.config import DecoderConfig
from realtime_tts.engine.models.qwen3.codec.layers import (
    Attention,
    Conv,
    Linear,
    Norm,
    Snake,
    StateDict,
    Upsample,
    pop_tensor,
    rotate,
    rotations,
)
from realtime_tts.engine.models.qwen3.codec.state import Carry, StateArena
from realtime_tts.engine.models.qwen3.cuda_graph import GraphCache, HostCopy

Codes = npt.NDArray[np.integer]
Samples = npt.NDArray[np.float32]

MAX_STEP_FRAMES = 32
"""More frames are decoded in several steps, which bounds the memory (32 frames: 24 MB per tensor)."""

CAPTURED_FRAMES = (1, 2, 4, 8, 16, MAX_STEP_FRAMES)
"""Steps that are captured on a GPU: any number of frames is a sum of a few of them."""

DILATIONS = (1, 3, 9)


class Code2Wav:
    """The codec's decoder for up to `slots` streams at any position, on one device.  Owned by one thread.

    On a GPU a step is one launch, for the numbers of frames and rows that `capture` captured.
    """

    def __init__(self, config: DecoderConfig, weights: "FrameDecoder", slots: int, device: torch.device) -> None:
        self.config = config
        self.arena = StateArena(weights.state_shapes, slots, device)
        self._weights = weights
        self._device = device
        self._graphs: GraphCache[tuple[int, int]] = GraphCache(lambda _bucket, *inputs: (self.step(*inputs),), device)
        self._sizes: tuple[int, ...] = ()
        self._buckets: tuple[int, ...] = ()

    @torch.no_grad()  # as `decode`: a tensor created in inference mode cannot be written outside of it
    def capture(self, rows: int, progress: Callable[[str], None]) -> None:
        """Captures steps of 1, 2, 4, … up to this number of rows; all slots are free."""
        self._sizes = CAPTURED_FRAMES
        self._buckets = tuple(sorted({min(1 << n, rows) for n in range(rows.bit_length() + 1)}))
        slot = self.arena.acquire()  # the warm-up overwrites its state
        for bucket in self._buckets:
            progress(f"capturing CUDA graphs for {bucket} rows of the decoder")
            index = torch.full((bucket,), slot, device=self._device)
            for frames in self._sizes:
                codes = torch.zeros(bucket, frames, self.config.num_quantizers, dtype=torch.long, device=self._device)
                self._graphs.capture((frames, bucket), codes, index)
        self.arena.release(slot)

    @torch.no_grad()
    def decode(self, slots: Sequence[int], codes: Sequence[Codes]) -> list[Samples]:
        """Decodes the next frames of streams: `codes[i]` (n_i, 16) of the stream in `slots[i]`, with any n_i ≥ 0.

        Returns (n_i · 1920,) samples in [-1, 1] for each.  Rows of equal n are decoded together, others one after the
        other.  Padding to the longest costs more for very different n, and saves little for similar ones: CPU seconds
        on one core, published shapes, 1 + 25 frames: 1.1 against 2.1 padded; 2 + 4 + 8 + 16: 1.3 against 2.7; 3 + 4:
        0.39 against 0.35.
        """
        self._check(slots, codes)
        groups: dict[int, list[int]] = defaultdict(list)
        for row, frames in enumerate(codes):
            if len(frames):
                groups[len(frames)].append(row)
        # All steps are launched before the first result is awaited, so that a GPU is not idle between them.
        waves = {
            frames_n: self._launch([slots[row] for row in rows], np.stack([codes[row] for row in rows]))
            for frames_n, rows in groups.items()
        }
        samples = [np.empty(0, np.float32)] * len(codes)
        for frames_n, rows in groups.items():
            parts = [copy.wait().numpy() for copy in waves[frames_n]]
            for index, row in enumerate(rows):
                samples[row] = np.concatenate([part[index] for part in parts])
        return samples

    def _launch(self, slots: Sequence[int], codes: Codes) -> list[HostCopy]:
        """The samples of [B, n, 16] codes, in parts of [B, n_i · 1920] that are being copied to the host."""
        rows = len(slots)
        bucket = next((bucket for bucket in self._buckets if bucket >= rows), rows)
        # The bucket is filled with copies of the first row, which write the same state to the same slot.
        fill = [0] * (bucket - rows)
        index = torch.tensor([*slots, *(slots[row] for row in fill)], device=self._device)
        batch = self._tensor(codes[[*range(rows), *fill]])
        parts, start = [], 0
        while start < batch.shape[1]:
            frames = self._step_frames(batch.shape[1] - start)
            (wave,) = self._graphs((frames, bucket), batch[:, start : start + frames], index)
            parts.append(HostCopy(wave[:rows]))
            start += frames
        return parts

    def _step_frames(self, left: int) -> int:
        """The frames of the next step: the largest captured size that fits, if any is captured."""
        return max((size for size in self._sizes if size <= left), default=min(left, MAX_STEP_FRAMES))

    def step(self, codes: Tensor, index: Tensor) -> Tensor:
        """Decodes [B, n, 16] codes of the streams in slots `index` [B] to [B, n · 1920], and updates their state.

        A CUDA graph captures this, so it depends only on B and n and on no value.  A slot that occurs twice must have
        the same codes twice.
        """
        return self._weights.decode(codes, Carry(self.arena.views, index))

    @torch.no_grad()
    def decode_windowed(self, window: Codes, context_frames: int) -> Samples:
        """Decodes `window` from a zero state, and removes the samples of its first `context_frames`.

        Not exact: attention would need 580 frames of context.  Other servers use 25 and 72 frames.
        """
        self._check_codes(window)
        if not 0 <= context_frames < len(window):
            raise ValueError(f"a window of {len(window)} frames cannot have {context_frames} frames of context")
        arena = StateArena(self._weights.state_shapes, 1, self._device)
        carry = Carry(arena.views, torch.zeros(1, dtype=torch.long, device=self._device))
        wave = self._weights.decode(self._tensor(window[None]), carry)[0].cpu().numpy()
        return wave[context_frames * self.config.samples_per_frame :]

    def _tensor(self, codes: Codes) -> Tensor:
        return torch.from_numpy(codes.astype(np.int64)).to(self._device)

    def _check(self, slots: Sequence[int], codes: Sequence[Codes]) -> None:
        if len(slots) != len(codes):
            raise ValueError(f"{len(slots)} slots, but {len(codes)} blocks of codes")
        if len(set(slots)) != len(slots):
            raise ValueError(f"a slot occurs twice in the batch: {list(slots)}")
        for slot, frames in zip(slots, codes, strict=True):
            self.arena.check(slot)
            self._check_codes(frames)

    def _check_codes(self, codes: Codes) -> None:
        books, size = self.config.num_quantizers, self.config.codebook_size
        if codes.ndim != 2 or codes.shape[1] != books or not np.issubdtype(codes.dtype, np.integer):
            raise ValueError(f"codes must be integers of shape (frames, {books}), got {codes.dtype} {codes.shape}")
        # On a GPU an index out of range would end the process.
        if codes.size and not 0 <= codes.min() <= codes.max() < size:
            raise ValueError(f"codes must be in [0, {size}), got {codes.min()} to {codes.max()}")


@dataclass(frozen=True, slots=True)
class Layer:
    """A transformer layer at the frame rate; both LayerScales are folded into the weights before them."""

    before_attention: Norm
    attention: Attention
    before_mlp: Norm
    gate_up: Linear
    down: Linear

    @classmethod
    def from_state(cls, config: DecoderConfig, state: StateDict, key: str) -> "Layer":
        width, inner = config.hidden_size, config.intermediate_size
        attention_scale = pop_tensor(state, f"{key}.self_attn_layer_scale.scale", (width,))
        mlp_scale = pop_tensor(state, f"{key}.mlp_layer_scale.scale", (width,))
        gate_up = [pop_tensor(state, f"{key}.mlp.{name}_proj.weight", (inner, width)) for name in ("gate", "up")]
        return cls(
            Norm.from_state(state, f"{key}.input_layernorm", width, config.rms_norm_eps),
            Attention.from_state(
                state, f"{key}.self_attn", width, config.num_attention_heads, config.head_size, attention_scale
            ),
            Norm.from_state(state, f"{key}.post_attention_layernorm", width, config.rms_norm_eps),
            Linear(torch.cat(gate_up)),
            Linear.from_state(state, f"{key}.mlp.down_proj", inner, width).scaled(mlp_scale),
        )

    def __call__(self, x: Tensor, carry: Carry, name: str, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[B, n, width]; cos and sin are those of the positions from the oldest kept one to the last of the chunk."""
        q, k, v = self.attention.split(self.before_attention(x))
        # Keys are kept unrotated, and rotated by their position in the window: only the distance between q and k
        # matters, so one table serves streams at every position.
        keys = rotate(carry.extend(f"{name}.k", k, -2), cos, sin)
        values = carry.extend(f"{name}.v", v, -2)
        frames = x.shape[1]
        x = x + self.attention.attend(rotate(q, cos[-frames:], sin[-frames:]), keys, values, mask)
        gate, up = self.gate_up(self.before_mlp(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


@dataclass(frozen=True, slots=True)
class ConvNeXt:
    """Upsampling, then a ConvNeXt block."""

    up: Upsample
    depthwise: Conv
    norm: Norm
    expand: Linear
    project: Linear

    @classmethod
    def from_state(cls, state: StateDict, key: str, width: int, rate: int) -> "ConvNeXt":
        gamma = pop_tensor(state, f"{key}.1.gamma", (width,))
        return cls(
            Upsample.from_state(state, f"{key}.0.conv", width, width, rate, strides=1),
            Conv.from_state(state, f"{key}.1.dwconv.conv", width, width, 7, groups=width),
            Norm.from_state(state, f"{key}.1.norm", width, 1e-6, bias=True),
            Linear.from_state(state, f"{key}.1.pwconv1", width, 4 * width, bias=True),
            Linear.from_state(state, f"{key}.1.pwconv2", 4 * width, width, bias=True).scaled(gamma),
        )

    def __call__(self, x: Tensor, carry: Carry, name: str) -> Tensor:
        x = self.up(x)
        y = self.norm(self.depthwise(carry.extend(name, x)).transpose(1, 2))
        return x + self.project(functional.gelu(self.expand(y))).transpose(1, 2)


@dataclass(frozen=True, slots=True)
class Residual:
    first_snake: Snake
    dilated: Conv
    second_snake: Snake
    pointwise: Conv

    @classmethod
    def from_state(cls, state: StateDict, key: str, channels: int, dilation: int) -> "Residual":
        return cls(
            Snake.from_state(state, f"{key}.act1", channels),
            Conv.from_state(state, f"{key}.conv1.conv", channels, channels, 7, dilation),
            Snake.from_state(state, f"{key}.act2", channels),
            Conv.from_state(state, f"{key}.conv2.conv", channels, channels, 1),
        )

    def __call__(self, x: Tensor, carry: Carry, name: str) -> Tensor:
        y = self.dilated(carry.extend(name, self.first_snake(x)))
        return x + self.pointwise(self.second_snake(y))


@dataclass(frozen=True, slots=True)
class Block:
    """Halves the channels and multiplies the rate."""

    snake: Snake
    up: Upsample
    residuals: tuple[Residual, ...]

    @classmethod
    def from_state(cls, state: StateDict, key: str, channels: int, rate: int) -> "Block":
        half = channels // 2
        return cls(
            Snake.from_state(state, f"{key}.0", channels),
            Upsample.from_state(state, f"{key}.1.conv", channels, half, rate, strides=2),
            tuple(Residual.from_state(state, f"{key}.{n + 2}", half, dilation) for n, dilation in enumerate(DILATIONS)),
        )

    def __call__(self, x: Tensor, carry: Carry, name: str, start: "StartTrim | None" = None) -> Tensor:
        x = self.up(carry.extend(f"{name}.up", self.snake(x)))
        if start is not None:
            start.apply(x)
        for dilation, residual in zip(DILATIONS, self.residuals, strict=True):
            x = residual(x, carry, f"{name}.{dilation}")
            if start is not None:
                start.apply(x)
        return x


@dataclass(frozen=True, slots=True)
class StartTrim:
    """Zeroes the first `columns` of streams that have just started.

    A decoder whose transposed convolutions are trimmed on both sides does not have these columns, and pads with zeros
    in their place.  They are kept as zeros, so that a chunk has the same shape at any age of its stream.
    """

    columns: int
    keep: Tensor
    """[B, 1, 1]: 0 for a stream that has just started, 1 for any other."""

    def apply(self, x: Tensor) -> None:
        """Changes [B, C, T], which must not be used elsewhere."""
        x[..., : self.columns] *= self.keep

    def upsampled(self, rate: int) -> "StartTrim":
        """After a transposed convolution that is trimmed on the left by its stride."""
        return StartTrim((self.columns + 1) * rate, self.keep)


class FrameDecoder(Protocol):
    """The layers of a decoder, from codes to samples."""

    @property
    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        """The state of a stream, by the names under which the layers read it."""
        ...

    def decode(self, codes: Tensor, carry: Carry) -> Tensor:
        """[B, n, 16] codes to [B, n · 1920] samples."""
        ...


@dataclass(frozen=True, slots=True)
class Trunk:
    """The layers that all decoders of the codec have, in their order."""

    config: DecoderConfig
    layers: tuple[Layer, ...]
    norm: Norm
    upsample: tuple[ConvNeXt, ...]
    first: Conv
    blocks: tuple[Block, ...]
    last_snake: Snake
    last: Conv

    @classmethod
    def from_state(cls, config: DecoderConfig, state: StateDict) -> "Trunk":
        latent, hidden, blocks = config.latent_dim, config.hidden_size, len(config.upsample_rates)
        channels = [config.decoder_dim // 2**n for n in range(blocks + 1)]
        return cls(
            config,
            tuple(
                Layer.from_state(config, state, f"pre_transformer.layers.{n}") for n in range(config.num_hidden_layers)
            ),
            Norm.from_state(state, "pre_transformer.norm", hidden, config.rms_norm_eps),
            tuple(
                ConvNeXt.from_state(state, f"upsample.{n}", latent, rate)
                for n, rate in enumerate(config.upsampling_ratios)
            ),
            Conv.from_state(state, "decoder.0.conv", latent, channels[0], 7),
            tuple(
                Block.from_state(state, f"decoder.{n + 1}.block", channels[n], rate)
                for n, rate in enumerate(config.upsample_rates)
            ),
            Snake.from_state(state, f"decoder.{blocks + 1}", channels[-1]),
            Conv.from_state(state, f"decoder.{blocks + 2}.conv", channels[-1], 1, 7),
        )

    def transform(self, x: Tensor, carry: Carry) -> tuple[Tensor, Tensor]:
        """The transformer at the frame rate, [B, n, hidden]; and the ages of the streams before the chunk, [B, 1]."""
        past, frames = self.config.past_positions, x.shape[1]
        cos, sin = rotations(past + frames, self.config.head_size, self.config.rope_theta, x.device)
        age = carry.read("age")
        mask = _window_mask(age, past, frames)
        carry.write("age", (age + frames).clamp(max=past))
        for n, layer in enumerate(self.layers):
            x = layer(x, carry, f"layer.{n}", mask, cos, sin)
        return self.norm(x), age

    def synthesise(self, x: Tensor, carry: Carry, start: StartTrim | None = None) -> Tensor:
        """[B, latent, n] to [B, n · 1920] samples.  `start`: for blocks that are trimmed on both sides."""
        for n, upsample in enumerate(self.upsample):
            x = upsample(x, carry, f"upsample.{n}")
        x = self.first(carry.extend("first", x))
        for n, (block, rate) in enumerate(zip(self.blocks, self.config.upsample_rates, strict=True)):
            start = None if start is None else start.upsampled(rate)
            x = block(x, carry, f"block.{n}", start)
        x = self.last(carry.extend("last", self.last_snake(x)))
        if start is not None:
            start.apply(x)
        return x.squeeze(1).clamp(-1.0, 1.0)


def _window_mask(age: Tensor, past: int, frames: int) -> Tensor:
    """[B, 1, n, past + n]: the keys that each query attends to.  A stream has only `age` ([B, 1]) past frames."""
    keys = torch.arange(past + frames, device=age.device)
    queries = keys[past:, None]
    in_window = (keys <= queries) & (keys >= queries - past)
    exists = keys >= past - age
    return (in_window & exists[:, None])[:, None]


def trunk_state_shapes(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    """The state of a stream in the trunk, by the names under which the layers read it."""
    latent, past = config.latent_dim, config.past_positions
    shapes: dict[str, tuple[int, ...]] = {"age": (1,)}
    for n in range(config.num_hidden_layers):
        shapes |= {f"layer.{n}.{part}": (config.num_attention_heads, past, config.head_size) for part in "kv"}
    shapes |= {f"upsample.{n}": (latent, 6) for n in range(len(config.upsampling_ratios))}
    shapes["first"] = (latent, 6)
    for n in range(len(config.upsample_rates)):
        channels = config.decoder_dim // 2**n
        shapes[f"block.{n}.up"] = (channels, 1)
        shapes |= {f"block.{n}.{dilation}": (channels // 2, 6 * dilation) for dilation in DILATIONS}
    shapes["last"] = (config.decoder_dim // 2 ** len(config.upsample_rates), 6)
    return shapes
