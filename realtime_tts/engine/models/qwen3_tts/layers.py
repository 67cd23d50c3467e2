"""Qwen3 blocks over a cache of slots: each row of a batch is a request of its own age, with no padding before it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3_tts.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_tts.config import StackConfig


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm over the last axis, in float32 inside."""
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


@dataclass(frozen=True, slots=True)
class Block:
    """The tensors of one block.  Query, key and value are one matrix here, and so are gate and up."""

    input_norm: torch.Tensor
    qkv: torch.Tensor
    q_norm: torch.Tensor
    k_norm: torch.Tensor
    out: torch.Tensor
    post_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


def load_block(checkpoint: Checkpoint, prefix: str, config: StackConfig) -> Block:
    hidden, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    heads, kv_heads = config.num_attention_heads * dim, config.num_key_value_heads * dim

    def attention(name: str, *shape: int) -> torch.Tensor:
        return checkpoint.take(f"{prefix}self_attn.{name}.weight", shape)

    def mlp(name: str, *shape: int) -> torch.Tensor:
        return checkpoint.take(f"{prefix}mlp.{name}.weight", shape)

    query, key, value = (
        attention(f"{n}_proj", rows, hidden) for n, rows in zip("qkv", (heads, kv_heads, kv_heads), strict=True)
    )
    return Block(
        input_norm=checkpoint.take(f"{prefix}input_layernorm.weight", (hidden,)),
        qkv=torch.cat([query, key, value]),
        q_norm=attention("q_norm", dim),
        k_norm=attention("k_norm", dim),
        out=attention("o_proj", hidden, heads),
        post_norm=checkpoint.take(f"{prefix}post_attention_layernorm.weight", (hidden,)),
        gate_up=torch.cat([mlp("gate_proj", inner, hidden), mlp("up_proj", inner, hidden)]),
        down=mlp("down_proj", hidden, inner),
    )


@dataclass(frozen=True, slots=True)
class Span:
    """Where the rows of one batch stand in the cache.

    Row i is in slot `slots[i]`, holds `starts[i]` positions already, and brings `counts[i]` more (right-padded).
    """

    slots: Sequence[int]
    starts: Sequence[int]
    counts: Sequence[int]

    @property
    def window(self) -> int:
        """How many positions of the cache the batch looks at."""
        return max(start + count for start, count in zip(self.starts, self.counts, strict=True))


@dataclass(frozen=True, slots=True)
class Places:
    """A span as tensors, made once for all the layers, and for as many passes as it holds for."""

    slots: torch.Tensor
    """(n, 1)"""
    positions: torch.Tensor
    """(n, t): where in its slot each goes; what only fills up the batch goes to nobody's place."""
    mask: torch.Tensor
    """(n, 1, t, window): what each may look at."""
    rope: tuple[torch.Tensor, torch.Tensor]
    """Cosine and sine, (n, 1, t, head_dim) each."""
    selection: "slice | torch.Tensor"
    """The slots as an index: a slice where they lie side by side, which costs no copy."""
    window: int
    """How many positions of the cache are looked at."""


class SlotCache:
    """Keys and values of `slots` requests, `max_len` positions each: (layers, slots, kv heads, max_len + 1, head_dim).

    The last position is nobody's: what is only there to fill a ragged batch is written to it, and never read.
    """

    def __init__(self, config: StackConfig, slots: int, max_len: int, device: torch.device, dtype: torch.dtype) -> None:
        shape = (config.num_hidden_layers, slots, config.num_key_value_heads, max_len + 1, config.head_dim)
        # Zeros and not whatever the memory held: a masked value counts 0 times, and 0 times NaN is NaN.
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.max_len = max_len
        self._cos, self._sin = _angles(config, max_len + 1, device, dtype)

    def places(self, span: Span) -> Places:
        """Where the rows of a batch go, and what they may look at."""
        device, window = self.keys.device, span.window
        assert window <= self.max_len, f"{window} positions do not fit in {self.max_len}"
        offsets = torch.arange(max(span.counts), device=device)
        filled = offsets < torch.tensor(span.counts, device=device)[:, None]
        positions = torch.tensor(span.starts, device=device)[:, None] + offsets
        positions = torch.where(filled, positions, self.max_len)
        slots = torch.tensor(span.slots, device=device)
        first, count = span.slots[0], len(span.slots)
        side_by_side = list(span.slots) == list(range(first, first + count))
        return Places(
            slots=slots[:, None],
            positions=positions,
            mask=(torch.arange(window, device=device) <= positions[..., None])[:, None],
            rope=(self._cos[positions][:, None], self._sin[positions][:, None]),
            selection=slice(first, first + count) if side_by_side else slots,
            window=window,
        )

    def clear(self, slot: int, length: int) -> None:
        """Forgets a request, so that nothing of it (such as a NaN) can reach the next one in its slot."""
        self.keys[:, slot, :, :length] = 0
        self.values[:, slot, :, :length] = 0


class Stack:
    """Blocks and a last norm: (n, t, hidden) in, (n, t, hidden) out."""

    def __init__(self, config: StackConfig, blocks: Sequence[Block], norm: torch.Tensor) -> None:
        self._config = config
        self._blocks = tuple(blocks)
        self._norm = norm

    def __call__(self, hidden: torch.Tensor, cache: SlotCache, places: Places) -> torch.Tensor:
        """Puts the rows at their places, and gives their hidden states after the last norm."""
        slots, positions = places.slots, places.positions
        for layer, block in enumerate(self._blocks):
            keys, values = cache.keys[layer], cache.values[layer]
            query, key, value = self._project(block, hidden, places.rope)
            keys[slots, :, positions], values[slots, :, positions] = key.transpose(1, 2), value.transpose(1, 2)
            seen = keys[places.selection, :, : places.window], values[places.selection, :, : places.window]
            mixed = F.scaled_dot_product_attention(query, *seen, attn_mask=places.mask, enable_gqa=True)
            hidden = hidden + F.linear(mixed.transpose(1, 2).flatten(2), block.out)
            hidden = hidden + self._feed_forward(block, hidden)
        return rms_norm(hidden, self._norm, self._config.rms_norm_eps)

    def _project(
        self, block: Block, hidden: torch.Tensor, rope: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query (n, heads, t, head_dim), key and value (n, kv heads, t, head_dim), rotated to their positions."""
        config = self._config
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        joint = F.linear(rms_norm(hidden, block.input_norm, config.rms_norm_eps), block.qkv)
        split = joint.view(*joint.shape[:2], heads + 2 * kv_heads, config.head_dim).transpose(1, 2)
        query, key, value = split[:, :heads], split[:, heads:-kv_heads], split[:, -kv_heads:]
        query = _rotated(rms_norm(query, block.q_norm, config.rms_norm_eps), *rope)
        key = _rotated(rms_norm(key, block.k_norm, config.rms_norm_eps), *rope)
        return query, key, value

    def _feed_forward(self, block: Block, hidden: torch.Tensor) -> torch.Tensor:
        """SwiGLU."""
        joint = F.linear(rms_norm(hidden, block.post_norm, self._config.rms_norm_eps), block.gate_up)
        gate, up = joint.chunk(2, -1)
        return F.linear(F.silu(gate) * up, block.down)


def _angles(
    config: StackConfig, positions: int, device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of RoPE (positions, head_dim), computed in float32; halves rotate, and not pairs."""
    exponents = torch.arange(0, config.head_dim, 2, device=device).float() / config.head_dim
    angles = torch.arange(positions, device=device).float()[:, None] * (1.0 / config.rope_theta**exponents)
    angles = torch.cat([angles, angles], -1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def load_stack(checkpoint: Checkpoint, prefix: str, config: StackConfig) -> Stack:
    """The blocks and the norm under `prefix`, such as "talker.model."."""
    blocks = [load_block(checkpoint, f"{prefix}layers.{index}.", config) for index in range(config.num_hidden_layers)]
    return Stack(config, blocks, checkpoint.take(f"{prefix}norm.weight", (config.hidden_size,)))
