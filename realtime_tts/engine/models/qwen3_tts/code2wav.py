"""Codes to sound, a chunk at a time, exactly as if the whole stream had been decoded at once.

The decoder of the 12 Hz codec looks back only.  So each layer keeps the few inputs before the chunk that it still
needs (5.2 MB a stream), nothing is decoded twice, and the parts join without a seam: what `decoder.forward` of the
reference (PyPI `qwen-tts` 0.1.1) gives for the whole, any chunks give.  The reference's own `decode` cuts the stream
into windows and decodes 25 frames of context again for each, which is `decode_windowed` here, for comparison.

All is fp32: in bf16 the exponents of SnakeBeta have given NaN.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from realtime_tts.engine.models.qwen3_tts.codec_config import CodecDecoderConfig
from realtime_tts.engine.models.qwen3_tts.codec_layers import (
    Attention,
    Conv,
    Linear,
    Norm,
    Snake,
    State,
    Upsample,
    move,
    refuse_leftovers,
    rotate,
    rotations,
    take,
    take_codebook,
)
from realtime_tts.engine.models.qwen3_tts.codec_state import Carry, StateArena
from realtime_tts.engine.models.qwen3_tts.cuda_graph import GraphCache, HostCopy

Codes = npt.NDArray[np.integer]
Samples = npt.NDArray[np.float32]

MAX_STEP_FRAMES = 32
"""More frames are decoded in several steps: the same sound, in bounded memory (32 frames: 24 MB a tensor)."""

CAPTURED_FRAMES = (1, 2, 4, 8, 16, MAX_STEP_FRAMES)
"""Steps that are captured on a GPU: any number of frames is a few of them, and still the same sound."""

DILATIONS = (1, 3, 9)


class Code2Wav:
    """The codec's decoder for up to `slots` streams of any age, on one device.  Owned by one thread.

    On a GPU a step is one launch, for the numbers of frames and rows that `capture` has made ready.
    """

    def __init__(self, config: CodecDecoderConfig, weights: "DecoderWeights", slots: int, device: torch.device) -> None:
        self.config = config
        self.arena = StateArena(state_shapes(config), slots, device)
        self._weights = weights
        self._device = device
        self._graphs: GraphCache[tuple[int, int]] = GraphCache(lambda _bucket, *inputs: (self.step(*inputs),), device)
        self._sizes: tuple[int, ...] = ()
        self._buckets: tuple[int, ...] = ()

    @torch.no_grad()  # as `decode` is: what inference mode makes may not be written to outside of it
    def capture(self, rows: int, progress: Callable[[str], None]) -> None:
        """Makes steps of 1, 2, 4, … up to so many rows quick to launch.  No stream is here."""
        self._sizes = CAPTURED_FRAMES
        self._buckets = tuple(sorted({min(1 << n, rows) for n in range(rows.bit_length() + 1)}))
        slot = self.arena.acquire()  # whose state the warm-up spoils
        for bucket in self._buckets:
            progress(f"capturing CUDA graphs for {bucket} rows of the decoder")
            index = torch.full((bucket,), slot, device=self._device)
            for frames in self._sizes:
                codes = torch.zeros(bucket, frames, self.config.num_quantizers, dtype=torch.long, device=self._device)
                self._graphs.capture((frames, bucket), codes, index)
        self.arena.release(slot)

    @classmethod
    def from_state(cls, config: CodecDecoderConfig, state: State, device: torch.device | str, slots: int) -> Self:
        """From the checkpoint's `decoder.*`, without that prefix, all of which is used up.  Raises ModelNotUsable."""
        place = torch.device(device)
        move(state, place)
        weights = DecoderWeights.take(config, state)
        refuse_leftovers(state, "decoder")
        return cls(config, weights, slots, place)

    @torch.no_grad()
    def decode(
        self, slots: Sequence[int], codes: Sequence[Codes], max_step_frames: int = MAX_STEP_FRAMES
    ) -> list[Samples]:
        """Decodes the next frames of some streams: `codes[i]` (n_i, 16) of the one in `slots[i]`, n_i ≥ 0 and any mix.

        Returns (n_i · 1920,) samples in [-1, 1] for each.  Rows of equal n are decoded together, others one after the
        other.  Padding the short to the long costs more where they differ much, and saves little where they do not: CPU
        seconds on one core, published shapes, 1 + 25 frames: 1.1 against 2.1; 2 + 4 + 8 + 16: 1.3 against 2.7; 3 + 4:
        0.39 against 0.35.
        """
        self._check(slots, codes)
        if max_step_frames < 1:
            raise ValueError(f"a step decodes a frame or more, got {max_step_frames}")
        groups: dict[int, list[int]] = defaultdict(list)
        for row, frames in enumerate(codes):
            if len(frames):
                groups[len(frames)].append(row)
        # All steps are launched before the first result is waited for: a GPU need not idle between them.
        waves = {
            frames_n: self._launch(
                [slots[row] for row in rows], np.stack([codes[row] for row in rows]), max_step_frames
            )
            for frames_n, rows in groups.items()
        }
        samples = [np.empty(0, np.float32)] * len(codes)
        for frames_n, rows in groups.items():
            parts = [copy.wait().numpy() for copy in waves[frames_n]]
            for place, row in enumerate(rows):
                samples[row] = np.concatenate([part[place] for part in parts])
        return samples

    def _launch(self, slots: Sequence[int], codes: Codes, max_step_frames: int) -> list[HostCopy]:
        """The sound of [B, n, 16] codes, in parts of [B, n_i · 1920] that are on their way to the host."""
        rows = len(slots)
        bucket = next((bucket for bucket in self._buckets if bucket >= rows), rows)
        # A row that only fills up the bucket is the first once more: it puts the same into the same slot.
        fill = [0] * (bucket - rows)
        index = torch.tensor([*slots, *(slots[row] for row in fill)], device=self._device)
        batch = self._tensor(codes[[*range(rows), *fill]])
        parts, start = [], 0
        while start < batch.shape[1]:
            frames = min(self._step_frames(batch.shape[1] - start), max_step_frames)
            (wave,) = self._graphs((frames, bucket), batch[:, start : start + frames], index)
            parts.append(HostCopy(wave[:rows]))
            start += frames
        return parts

    def _step_frames(self, left: int) -> int:
        return max((size for size in self._sizes if size <= left), default=left)

    def step(self, codes: Tensor, index: Tensor) -> Tensor:
        """Decodes [B, n, 16] codes of the streams in slots `index` [B] to [B, n · 1920]; their state moves on.

        Nothing here depends on a value, only on B and n: this is what a CUDA graph captures.  A slot that is there
        twice must have the same codes twice.
        """
        return self._weights.decode(codes, Carry(self.arena.views, index))

    @torch.no_grad()
    def decode_windowed(self, window: Codes, context_frames: int) -> Samples:
        """Decodes `window` from a cold start and drops the sound of its first `context_frames`: without a state.

        Not exact: attention would need 580 frames of context.  25 and 72 frames are what others use.
        """
        self._check_codes(window)
        if not 0 <= context_frames < len(window):
            raise ValueError(f"a window of {len(window)} frames cannot begin with {context_frames} of context")
        arena = StateArena(state_shapes(self.config), 1, self._device)
        carry = Carry(arena.views, torch.zeros(1, dtype=torch.long, device=self._device))
        wave = self._weights.decode(self._tensor(window[None]), carry)[0].cpu().numpy()
        return wave[context_frames * self.config.samples_per_frame :]

    def _tensor(self, codes: Codes) -> Tensor:
        return torch.from_numpy(codes.astype(np.int64)).to(self._device)

    def _check(self, slots: Sequence[int], codes: Sequence[Codes]) -> None:
        if len(slots) != len(codes):
            raise ValueError(f"{len(slots)} slots and {len(codes)} blocks of codes")
        if len(set(slots)) != len(slots):
            raise ValueError(f"a slot is in the batch twice: {list(slots)}")
        for slot, frames in zip(slots, codes, strict=True):
            self.arena.check(slot)
            self._check_codes(frames)

    def _check_codes(self, codes: Codes) -> None:
        books, size = self.config.num_quantizers, self.config.codebook_size
        if codes.ndim != 2 or codes.shape[1] != books or not np.issubdtype(codes.dtype, np.integer):
            raise ValueError(f"codes must be integers of shape (frames, {books}), got {codes.dtype} {codes.shape}")
        # On a GPU an index out of range would take the whole process with it.
        if codes.size and not 0 <= codes.min() <= codes.max() < size:
            raise ValueError(f"codes must be in [0, {size}), got {codes.min()} to {codes.max()}")


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of the transformer at the frame rate; both LayerScales are folded into the products before them."""

    before_attention: Norm
    attention: Attention
    before_mlp: Norm
    gate_up: Linear
    down: Linear

    @classmethod
    def take(cls, config: CodecDecoderConfig, state: State, key: str) -> "Layer":
        width, inner = config.hidden_size, config.intermediate_size
        attention_scale = take(state, f"{key}.self_attn_layer_scale.scale", (width,))
        mlp_scale = take(state, f"{key}.mlp_layer_scale.scale", (width,))
        gate_up = [take(state, f"{key}.mlp.{name}_proj.weight", (inner, width)) for name in ("gate", "up")]
        return cls(
            Norm.take(state, f"{key}.input_layernorm", width, config.rms_norm_eps),
            Attention.take(
                state, f"{key}.self_attn", width, config.num_attention_heads, config.head_size, attention_scale
            ),
            Norm.take(state, f"{key}.post_attention_layernorm", width, config.rms_norm_eps),
            Linear(torch.cat(gate_up)),
            Linear.take(state, f"{key}.mlp.down_proj", inner, width).scaled(mlp_scale),
        )

    def __call__(self, x: Tensor, carry: Carry, name: str, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[B, n, width]; cos and sin are those of the positions from the oldest kept one to the last of the chunk."""
        q, k, v = self.attention.split(self.before_attention(x))
        # Keys are kept as they were before their rotation, and turned by their place in the window: only the distance
        # between q and k matters, and so one table serves streams of every age.
        keys = rotate(carry.extend(f"{name}.k", k, -2), cos, sin)
        values = carry.extend(f"{name}.v", v, -2)
        frames = x.shape[1]
        x = x + self.attention.mix(rotate(q, cos[-frames:], sin[-frames:]), keys, values, mask)
        gate, up = self.gate_up(self.before_mlp(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


@dataclass(frozen=True, slots=True)
class ConvNeXt:
    """Doubles the rate, then mixes within and across channels."""

    up: Upsample
    depthwise: Conv
    norm: Norm
    wide: Linear
    narrow: Linear

    @classmethod
    def take(cls, state: State, key: str, width: int, rate: int) -> "ConvNeXt":
        gamma = take(state, f"{key}.1.gamma", (width,))
        return cls(
            Upsample.take(state, f"{key}.0.conv", width, width, rate, strides=1),
            Conv.take(state, f"{key}.1.dwconv.conv", width, width, 7, groups=width),
            Norm.take(state, f"{key}.1.norm", width, 1e-6, bias=True),
            Linear.take(state, f"{key}.1.pwconv1", width, 4 * width, bias=True),
            Linear.take(state, f"{key}.1.pwconv2", 4 * width, width, bias=True).scaled(gamma),
        )

    def __call__(self, x: Tensor, carry: Carry, name: str) -> Tensor:
        x = self.up(x)
        y = self.norm(self.depthwise(carry.extend(name, x)).transpose(1, 2))
        return x + self.narrow(functional.gelu(self.wide(y))).transpose(1, 2)


@dataclass(frozen=True, slots=True)
class Residual:
    before: Snake
    wide: Conv
    between: Snake
    narrow: Conv

    @classmethod
    def take(cls, state: State, key: str, channels: int, dilation: int) -> "Residual":
        return cls(
            Snake.take(state, f"{key}.act1", channels),
            Conv.take(state, f"{key}.conv1.conv", channels, channels, 7, dilation),
            Snake.take(state, f"{key}.act2", channels),
            Conv.take(state, f"{key}.conv2.conv", channels, channels, 1),
        )

    def __call__(self, x: Tensor, carry: Carry, name: str) -> Tensor:
        y = self.wide(carry.extend(name, self.before(x)))
        return x + self.narrow(self.between(y))


@dataclass(frozen=True, slots=True)
class Block:
    """Halves the channels and multiplies the rate."""

    before: Snake
    up: Upsample
    residuals: tuple[Residual, ...]

    @classmethod
    def take(cls, state: State, key: str, channels: int, rate: int) -> "Block":
        half = channels // 2
        return cls(
            Snake.take(state, f"{key}.0", channels),
            Upsample.take(state, f"{key}.1.conv", channels, half, rate, strides=2),
            tuple(Residual.take(state, f"{key}.{n + 2}", half, dilation) for n, dilation in enumerate(DILATIONS)),
        )

    def __call__(self, x: Tensor, carry: Carry, name: str) -> Tensor:
        x = self.up(carry.extend(f"{name}.up", self.before(x)))
        for dilation, residual in zip(DILATIONS, self.residuals, strict=True):
            x = residual(x, carry, f"{name}.{dilation}")
        return x


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """All of the decoder's layers, in the order in which a frame goes through them."""

    config: CodecDecoderConfig
    table: Tensor
    """[16 · 2048, 512]: each code's centroid, already projected; a frame's vector is the sum of its 16."""
    offsets: Tensor
    pre_conv: Conv
    project_in: Linear
    layers: tuple[Layer, ...]
    norm: Norm
    project_out: Linear
    upsample: tuple[ConvNeXt, ...]
    widen: Conv
    blocks: tuple[Block, ...]
    last_snake: Snake
    last: Conv

    @classmethod
    def take(cls, config: CodecDecoderConfig, state: State) -> "DecoderWeights":
        table = _codebook_table(config, state)
        latent, hidden, blocks = config.latent_dim, config.hidden_size, len(config.upsample_rates)
        channels = [config.decoder_dim // 2**n for n in range(blocks + 1)]
        return cls(
            config,
            table.flatten(0, 1),
            torch.arange(config.num_quantizers, device=table.device) * config.codebook_size,
            Conv.take(state, "pre_conv.conv", config.codebook_dim, latent, 3),
            Linear.take(state, "pre_transformer.input_proj", latent, hidden, bias=True),
            tuple(Layer.take(config, state, f"pre_transformer.layers.{n}") for n in range(config.num_hidden_layers)),
            Norm.take(state, "pre_transformer.norm", hidden, config.rms_norm_eps),
            Linear.take(state, "pre_transformer.output_proj", hidden, latent, bias=True),
            tuple(
                ConvNeXt.take(state, f"upsample.{n}", latent, rate) for n, rate in enumerate(config.upsampling_ratios)
            ),
            Conv.take(state, "decoder.0.conv", latent, channels[0], 7),
            tuple(
                Block.take(state, f"decoder.{n + 1}.block", channels[n], rate)
                for n, rate in enumerate(config.upsample_rates)
            ),
            Snake.take(state, f"decoder.{blocks + 1}", channels[-1]),
            Conv.take(state, f"decoder.{blocks + 2}.conv", channels[-1], 1, 7),
        )

    def decode(self, codes: Tensor, carry: Carry) -> Tensor:
        """[B, n, 16] codes to [B, n · 1920] samples."""
        x = functional.embedding(codes + self.offsets, self.table).sum(2).transpose(1, 2)
        x = self.pre_conv(carry.extend("pre_conv", x)).transpose(1, 2)
        x = self._transform(x, carry).transpose(1, 2)
        for n, upsample in enumerate(self.upsample):
            x = upsample(x, carry, f"upsample.{n}")
        x = self.widen(carry.extend("widen", x))
        for n, block in enumerate(self.blocks):
            x = block(x, carry, f"block.{n}")
        x = self.last(carry.extend("last", self.last_snake(x)))
        return x.squeeze(1).clamp(-1.0, 1.0)

    def _transform(self, x: Tensor, carry: Carry) -> Tensor:
        past, frames = self.config.past_positions, x.shape[1]
        cos, sin = rotations(past + frames, self.config.head_size, self.config.rope_theta, x.device)
        age = carry.read("age")
        mask = _window_mask(age, past, frames)
        carry.write("age", (age + frames).clamp(max=past))
        x = self.project_in(x)
        for n, layer in enumerate(self.layers):
            x = layer(x, carry, f"layer.{n}", mask, cos, sin)
        return self.project_out(self.norm(x))


def _codebook_table(config: CodecDecoderConfig, state: State) -> Tensor:
    """[16, 2048, 512]: the split quantizer's centroids times the 1×1 projections that follow them."""
    width, inner = config.codebook_dim, config.codebook_dim // 2
    tables = []
    for part, books in (("rvq_first", 1), ("rvq_rest", config.num_quantizers - 1)):
        key = f"quantizer.{part}"
        take(state, f"{key}.input_proj.weight", (inner, width, 1))  # only an encoder would use it
        project = take(state, f"{key}.output_proj.weight", (width, inner, 1))[:, :, 0]
        for n in range(books):
            book = f"{key}.vq.layers.{n}._codebook"
            centroids = take_codebook(state, book, "embedding_sum", config.codebook_size, inner)
            tables.append(centroids @ project.T)
    return torch.stack(tables)


def _window_mask(age: Tensor, past: int, frames: int) -> Tensor:
    """[B, 1, n, past + n]: which keys a query sees.  A stream of `age` frames ([B, 1]) has only so many past ones."""
    keys = torch.arange(past + frames, device=age.device)
    queries = keys[past:, None]
    near = (keys <= queries) & (keys >= queries - past)
    there = keys >= past - age
    return (near & there[:, None])[:, None]


def state_shapes(config: CodecDecoderConfig) -> dict[str, tuple[int, ...]]:
    """What a stream keeps, by the names under which the layers ask for it."""
    latent, past = config.latent_dim, config.past_positions
    shapes: dict[str, tuple[int, ...]] = {"age": (1,), "pre_conv": (config.codebook_dim, 2)}
    for n in range(config.num_hidden_layers):
        shapes |= {f"layer.{n}.{part}": (config.num_attention_heads, past, config.head_size) for part in "kv"}
    shapes |= {f"upsample.{n}": (latent, 6) for n in range(len(config.upsampling_ratios))}
    shapes["widen"] = (latent, 6)
    for n in range(len(config.upsample_rates)):
        channels = config.decoder_dim // 2**n
        shapes[f"block.{n}.up"] = (channels, 1)
        shapes |= {f"block.{n}.{dilation}": (channels // 2, 6 * dilation) for dilation in DILATIONS}
    shapes["last"] = (config.decoder_dim // 2 ** len(config.upsample_rates), 6)
    return shapes


def flops_per_frame(config: CodecDecoderConfig, chunk_frames: int, context_frames: int = 0) -> float:
    """Floating point operations for one new frame, a multiply and an add counted as two, activations not at all.

    `context_frames` are decoded again for every chunk, as a decoder without a state must.
    """
    frames = chunk_frames + context_frames
    inner = config.num_attention_heads * config.head_size
    keys = config.past_positions + frames
    layer = config.hidden_size * (4 * inner + 3 * config.intermediate_size) + 2 * keys * inner
    latent = config.latent_dim
    products = 3 * config.codebook_dim * latent + 2 * latent * config.hidden_size + config.num_hidden_layers * layer
    steps = 1
    for rate in config.upsampling_ratios:
        products += steps * rate * latent * latent  # k = s: one tap an output
        steps *= rate
        products += steps * (7 * latent + 8 * latent * latent)
    products += steps * 7 * latent * config.decoder_dim
    channels = config.decoder_dim
    for rate in config.upsample_rates:
        half = channels // 2
        steps *= rate
        products += steps * (2 * channels * half + len(DILATIONS) * 8 * half * half)
        channels = half
    products += steps * 7 * channels
    return 2.0 * products * frames / chunk_frames
