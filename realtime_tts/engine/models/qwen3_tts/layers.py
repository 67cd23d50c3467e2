"""Qwen3 blocks over a cache of slots: each row of a batch is a request of its own age, with no padding before it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3_tts.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_tts.config import StackConfig
from realtime_tts.engine.models.qwen3_tts.matrix import Matrix


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm over the last axis, in float32 inside."""
    if x.dtype == torch.float32:
        return F.rms_norm(x, x.shape[-1:], eps=eps) * weight
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


@dataclass(frozen=True, slots=True)
class Block:
    """The weights of one block.  Query, key and value are one matrix here, and so are gate and up."""

    input_norm: torch.Tensor
    qkv: Matrix
    qk_norm: torch.Tensor
    """(heads + kv heads, 1, head_dim): query and key are normed and turned together."""
    out: Matrix
    post_norm: torch.Tensor
    gate_up: Matrix
    down: Matrix


def load_block(checkpoint: Checkpoint, prefix: str, config: StackConfig, *, often: bool) -> Block:
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
        qkv=Matrix.rows(query, key, value, often=often),
        qk_norm=qk_norm(config, attention("q_norm", dim), attention("k_norm", dim)),
        out=Matrix(attention("o_proj", hidden, heads), often=often),
        post_norm=checkpoint.take(f"{prefix}post_attention_layernorm.weight", (hidden,)),
        gate_up=Matrix.rows(mlp("gate_proj", inner, hidden), mlp("up_proj", inner, hidden), often=often),
        down=Matrix(mlp("down_proj", hidden, inner), often=often),
    )


def qk_norm(config: StackConfig, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """The norms (head_dim,) of queries and keys as one weight for all heads."""
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    return torch.cat([query.expand(heads, 1, -1), key.expand(kv_heads, 1, -1)])


@dataclass(frozen=True, slots=True)
class Span:
    """Where the rows of one batch stand in the cache.

    Row i is in slot `slots[i]`, holds `starts[i]` positions already, and brings `counts[i]` more (right-padded).  One
    that brings none is idle: what comes out for it means nothing.
    """

    slots: Sequence[int]
    starts: Sequence[int]
    counts: Sequence[int]

    @property
    def window(self) -> int:
        """How many positions of the cache the batch looks at."""
        return max(start + count for start, count in zip(self.starts, self.counts, strict=True) if count)

    @property
    def side_by_side(self) -> bool:
        return list(self.slots) == list(range(self.slots[0], self.slots[0] + len(self.slots)))

    @property
    def even(self) -> bool:
        """Whether all rows stand at the same place."""
        return self.counts[0] > 0 and len(set(self.starts)) == len(set(self.counts)) == 1


@dataclass(frozen=True, slots=True)
class Places:
    """A span as tensors, made once for all the layers, and for as many passes as it holds for."""

    slots: torch.Tensor
    """(n, 1)"""
    positions: torch.Tensor
    """(n, t): where in its slot each goes; what only fills up the batch goes to nobody's place."""
    mask: torch.Tensor | None
    """(n, 1, t, window): what each may look at; None where that is all."""
    rope: tuple[torch.Tensor, torch.Tensor]
    """Cosine and signed sine, (n, 1, t, head_dim) each."""
    selection: "slice | torch.Tensor"
    """The slots as an index: a slice where they lie side by side, which costs no copy."""
    first: int | None
    """The first position, where it is the same for rows side by side: quicker to write to."""
    window: int
    """How many positions of the cache are looked at."""


@dataclass(frozen=True, slots=True, eq=False)
class KVPrefix:
    """Keys and values of the first positions of a slot, (layers, kv heads, positions, head_dim) each."""

    keys: torch.Tensor
    values: torch.Tensor

    @property
    def length(self) -> int:
        return self.keys.shape[2]


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

    def places(self, span: Span, window: int | None = None) -> Places:
        """Where the rows of a batch go, and what they may look at.

        `window` is how many positions are looked at, if more than are needed; what is made then has the same parts for
        every batch of as many rows.
        """
        device, given = self.keys.device, window is not None
        window = window or span.window
        assert span.window <= window <= self.max_len, f"{span.window} positions do not fit in {window}"
        offsets = torch.arange(max(span.counts), device=device)
        filled = offsets < torch.tensor(span.counts, device=device)[:, None]
        positions = torch.tensor(span.starts, device=device)[:, None] + offsets
        positions = torch.where(filled, positions, self.max_len)
        slots = torch.tensor(span.slots, device=device)
        even = span.even and span.side_by_side and not given
        everything = even and span.counts[0] == 1
        seen = None if everything else (torch.arange(window, device=device) <= positions[..., None])[:, None]
        return Places(
            slots=slots[:, None],
            positions=positions,
            mask=seen,
            rope=(self._cos[positions][:, None], self._sin[positions][:, None]),
            selection=slice(span.slots[0], span.slots[0] + len(span.slots)) if span.side_by_side else slots,
            first=span.starts[0] if even else None,
            window=window,
        )

    def prefix(self, slot: int, length: int) -> KVPrefix:
        """A copy of what a slot's first positions hold."""
        return KVPrefix(self.keys[:, slot, :, :length].clone(), self.values[:, slot, :, :length].clone())

    def put_prefix(self, slot: int, prefix: KVPrefix) -> None:
        """Gives a slot what another's first positions held."""
        self.keys[:, slot, :, : prefix.length] = prefix.keys
        self.values[:, slot, :, : prefix.length] = prefix.values

    def clear(self, slot: int, length: int) -> None:
        """Forgets a request, so that nothing of it (such as a NaN) can reach the next one in its slot."""
        self.keys[:, slot, :, :length] = 0
        self.values[:, slot, :, :length] = 0


class Stack:
    """Blocks and a last norm: (n, t, hidden) in, (n, t, hidden) out.  Perhaps `compiled` by torch, at its first calls.

    Only plain matrices can be compiled: those of a GPU, or of another type than float32.
    """

    def __init__(
        self, config: StackConfig, blocks: Sequence[Block], norm: torch.Tensor, *, compiled: bool = False
    ) -> None:
        self._config = config
        self._blocks = tuple(blocks)
        self._norm = norm
        self._run = torch.compile(self._forward, dynamic=True) if compiled else self._forward

    def __call__(self, hidden: torch.Tensor, cache: SlotCache, places: Places) -> torch.Tensor:
        """Puts the rows at their places, and gives their hidden states after the last norm."""
        return self._run(hidden, cache, places)

    def _forward(self, hidden: torch.Tensor, cache: SlotCache, places: Places) -> torch.Tensor:
        for layer, block in enumerate(self._blocks):
            keys, values = cache.keys[layer], cache.values[layer]
            query, key, value = self._project(block, hidden, places.rope)
            _put(keys, key, places)
            _put(values, value, places)
            seen = keys[places.selection, :, : places.window], values[places.selection, :, : places.window]
            mixed = F.scaled_dot_product_attention(query, *seen, attn_mask=places.mask, enable_gqa=True)
            hidden = hidden + block.out(mixed.transpose(1, 2).flatten(2))
            hidden = hidden + self._feed_forward(block, hidden)
        return rms_norm(hidden, self._norm, self._config.rms_norm_eps)

    def _project(
        self, block: Block, hidden: torch.Tensor, rope: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query (n, heads, t, head_dim), key and value (n, kv heads, t, head_dim), rotated to their positions."""
        config = self._config
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        joint = block.qkv(rms_norm(hidden, block.input_norm, config.rms_norm_eps))
        split = joint.view(*joint.shape[:2], heads + 2 * kv_heads, config.head_dim).transpose(1, 2)
        turned = _rotated(rms_norm(split[:, :-kv_heads], block.qk_norm, config.rms_norm_eps), *rope)
        return turned[:, :heads], turned[:, heads:], split[:, -kv_heads:]

    def _feed_forward(self, block: Block, hidden: torch.Tensor) -> torch.Tensor:
        """SwiGLU."""
        gate, up = block.gate_up(rms_norm(hidden, block.post_norm, self._config.rms_norm_eps)).chunk(2, -1)
        return block.down(F.silu(gate) * up)


def _put(cached: torch.Tensor, new: torch.Tensor, places: Places) -> None:
    """Writes (n, kv heads, t, head_dim) to its places in a layer's cache."""
    if places.first is not None:
        cached[places.selection, :, places.first : places.first + new.shape[2]] = new
    else:
        cached[places.slots, :, places.positions] = new.transpose(1, 2)


def _angles(
    config: StackConfig, positions: int, device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of RoPE (positions, head_dim), computed in float32; halves rotate, and not pairs.

    The sine has the sign that the other half is added with.
    """
    exponents = torch.arange(0, config.head_dim, 2, device=device).float() / config.head_dim
    angles = torch.arange(positions, device=device).float()[:, None] * (1.0 / config.rope_theta**exponents)
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([cosine, cosine], -1).to(dtype), torch.cat([-sine, sine], -1).to(dtype)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return x * cos + x.roll(x.shape[-1] // 2, -1) * sin


def load_stack(
    checkpoint: Checkpoint, prefix: str, config: StackConfig, *, often: bool = False, compiled: bool = False
) -> Stack:
    """The blocks and the norm under `prefix`, such as "talker.model.".  `often`: as for a Matrix."""
    names = [f"{prefix}layers.{index}." for index in range(config.num_hidden_layers)]
    blocks = [load_block(checkpoint, name, config, often=often) for name in names]
    norm = checkpoint.take(f"{prefix}norm.weight", (config.hidden_size,))
    return Stack(config, blocks, norm, compiled=compiled)
