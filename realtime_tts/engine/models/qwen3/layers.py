"""Qwen3 transformer blocks over a KV cache of slots: the rows of a batch are requests of any length, unpadded."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3.config import StackConfig
from realtime_tts.engine.models.qwen3.feed_forward import FeedForward, load_feed_forward
from realtime_tts.engine.models.qwen3.linear import PackedLinear
from realtime_tts.engine.models.qwen3.positions import RopeTable


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm over the last axis, computed in float32."""
    if x.dtype == torch.float32:
        return F.rms_norm(x, x.shape[-1:], eps=eps) * weight
    x32 = x.float()
    return weight * (x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


@dataclass(frozen=True, slots=True)
class Block:
    """The weights of one block.  Query, key and value are one weight."""

    input_norm: torch.Tensor
    qkv: PackedLinear
    qk_norm: torch.Tensor
    """(heads + kv heads, 1, head_dim): query and key are normalised and rotated together."""
    out: PackedLinear
    post_norm: torch.Tensor
    feed_forward: FeedForward


def load_block(checkpoint: Checkpoint, prefix: str, config: StackConfig, *, keep_transposed: bool) -> Block:
    hidden, dim = config.hidden_size, config.head_dim
    heads, kv_heads = config.num_attention_heads * dim, config.num_key_value_heads * dim

    def attention(name: str, *shape: int) -> torch.Tensor:
        return checkpoint.read(f"{prefix}self_attn.{name}.weight", shape)

    query, key, value = (
        attention(f"{n}_proj", rows, hidden) for n, rows in zip("qkv", (heads, kv_heads, kv_heads), strict=True)
    )
    return Block(
        input_norm=checkpoint.read(f"{prefix}input_layernorm.weight", (hidden,)),
        qkv=PackedLinear.concat(query, key, value, keep_transposed=keep_transposed),
        qk_norm=qk_norm(config, attention("q_norm", dim), attention("k_norm", dim)),
        out=PackedLinear(attention("o_proj", hidden, heads), keep_transposed=keep_transposed),
        post_norm=checkpoint.read(f"{prefix}post_attention_layernorm.weight", (hidden,)),
        feed_forward=load_feed_forward(checkpoint, f"{prefix}mlp.", config, keep_transposed=keep_transposed),
    )


def qk_norm(config: StackConfig, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """The norms (head_dim,) of queries and keys as one weight for all heads."""
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    return torch.cat([query.expand(heads, 1, -1), key.expand(kv_heads, 1, -1)])


@dataclass(frozen=True, slots=True)
class Span:
    """The cache positions of one batch.

    Row i is in slot `slots[i]`, has `past[i]` positions in the cache, and adds `new[i]` (right-padded).  A row that
    adds none is idle, and its output is meaningless.
    """

    slots: Sequence[int]
    past: Sequence[int]
    new: Sequence[int]

    @property
    def window(self) -> int:
        """The number of cache positions that the batch attends to."""
        return max(past + new for past, new in zip(self.past, self.new, strict=True) if new)

    @property
    def contiguous(self) -> bool:
        return list(self.slots) == list(range(self.slots[0], self.slots[0] + len(self.slots)))

    @property
    def aligned(self) -> bool:
        """Whether all rows add the same positions."""
        return self.new[0] > 0 and len(set(self.past)) == len(set(self.new)) == 1


@dataclass(frozen=True, slots=True)
class CacheIndex:
    """A span as tensors: built once for all layers, and reused by passes over the same positions."""

    slots: torch.Tensor
    """(n, 1)"""
    positions: torch.Tensor
    """(n, t): the position within the slot; padding goes to the unused last position."""
    mask: torch.Tensor | None
    """(n, 1, t, window): the positions that each attends to; None for all."""
    rope: tuple[torch.Tensor, torch.Tensor]
    """Cosine and signed sine, (n, 1, t, head_dim) each."""
    selection: "slice | torch.Tensor"
    """The slots as an index: a slice if they are contiguous, which needs no copy."""
    first: int | None
    """The first position if the rows are contiguous and aligned, which is faster to write; None otherwise."""
    window: int
    """The number of cache positions that are attended to."""


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

    The last position is unused: the padding of a ragged batch is written to it, and never read.
    """

    def __init__(self, config: StackConfig, slots: int, max_len: int, device: torch.device, dtype: torch.dtype) -> None:
        shape = (config.num_hidden_layers, slots, config.num_key_value_heads, max_len + 1, config.head_dim)
        # Zeroed, because a masked value is multiplied by 0, and 0 times NaN is NaN.
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.max_len = max_len
        self._rope = RopeTable(config, max_len + 1, device, dtype)

    def index(self, span: Span, window: int | None = None, rope: torch.Tensor | None = None) -> CacheIndex:
        """The positions that a batch writes, and those that it attends to.

        `window` fixes the number of positions attended to; the result then has the same shapes for every batch of that
        many rows.  `rope` are the rotary positions where they are not those of the cache: (n, t), or (3, n, t) for
        three axes.
        """
        device, given = self.keys.device, window is not None
        window = window or span.window
        assert span.window <= window <= self.max_len, f"{span.window} positions do not fit in {window}"
        offsets = torch.arange(max(span.new), device=device)
        filled = offsets < torch.tensor(span.new, device=device)[:, None]
        positions = torch.tensor(span.past, device=device)[:, None] + offsets
        positions = torch.where(filled, positions, self.max_len)
        slots = torch.tensor(span.slots, device=device)
        aligned = span.aligned and span.contiguous and not given
        attends_to_all = aligned and span.new[0] == 1
        mask = None if attends_to_all else (torch.arange(window, device=device) <= positions[..., None])[:, None]
        return CacheIndex(
            slots=slots[:, None],
            positions=positions,
            mask=mask,
            rope=self._rope(positions if rope is None else rope),
            selection=slice(span.slots[0], span.slots[0] + len(span.slots)) if span.contiguous else slots,
            first=span.past[0] if aligned else None,
            window=window,
        )

    def prefix(self, slot: int, length: int) -> KVPrefix:
        """A copy of a slot's first positions."""
        return KVPrefix(self.keys[:, slot, :, :length].clone(), self.values[:, slot, :, :length].clone())

    def restore_prefix(self, slot: int, prefix: KVPrefix) -> None:
        """Writes a prefix to a slot's first positions."""
        self.keys[:, slot, :, : prefix.length] = prefix.keys
        self.values[:, slot, :, : prefix.length] = prefix.values

    def clear(self, slot: int, length: int, start: int = 0) -> None:
        """Zeroes a request's positions, so that nothing of it (such as a NaN) reaches the next request in the slot."""
        self.keys[:, slot, :, start:length] = 0
        self.values[:, slot, :, start:length] = 0


class Stack:
    """Blocks and a final norm: (n, t, hidden) to (n, t, hidden).  `compiled`: by torch.compile, at its first calls.

    Only unpacked weights can be compiled: those on a GPU, or of another type than float32.
    """

    def __init__(
        self, config: StackConfig, blocks: Sequence[Block], norm: torch.Tensor, *, compiled: bool = False
    ) -> None:
        self._config = config
        self._blocks = tuple(blocks)
        self._norm = norm
        self._run = torch.compile(self._forward, dynamic=True) if compiled else self._forward

    def __call__(self, hidden: torch.Tensor, cache: SlotCache, index: CacheIndex) -> torch.Tensor:
        """Writes the rows to the cache, and returns their hidden states after the final norm."""
        return self._run(hidden, cache, index)[0]

    def observe(
        self,
        hidden: torch.Tensor,
        cache: SlotCache,
        index: CacheIndex,
        *,
        layer: int | None,
        added: Sequence[torch.Tensor],
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """As a call, and also the input of block `layer` (n, t, hidden), if one is given.

        `added[i]` (n, t, hidden) is added to the output of block i.
        """
        normed, observed = self._run(hidden, cache, index, layer, added)
        return normed, observed

    def _forward(
        self,
        hidden: torch.Tensor,
        cache: SlotCache,
        index: CacheIndex,
        observed_layer: int | None = None,
        added: Sequence[torch.Tensor] = (),
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        observed = None
        for layer, block in enumerate(self._blocks):
            if layer == observed_layer:
                observed = hidden
            keys, values = cache.keys[layer], cache.values[layer]
            query, key, value = self._project(block, hidden, index.rope)
            _write(keys, key, index)
            _write(values, value, index)
            context = keys[index.selection, :, : index.window], values[index.selection, :, : index.window]
            attended = F.scaled_dot_product_attention(query, *context, attn_mask=index.mask, enable_gqa=True)
            hidden = hidden + block.out(attended.transpose(1, 2).flatten(2))
            hidden = hidden + block.feed_forward(rms_norm(hidden, block.post_norm, self._config.rms_norm_eps))
            if layer < len(added):
                hidden = hidden + added[layer]
        return rms_norm(hidden, self._norm, self._config.rms_norm_eps), observed

    def _project(
        self, block: Block, hidden: torch.Tensor, rope: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query (n, heads, t, head_dim), key and value (n, kv heads, t, head_dim), rotated to their positions."""
        config = self._config
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        joint = block.qkv(rms_norm(hidden, block.input_norm, config.rms_norm_eps))
        split = joint.view(*joint.shape[:2], heads + 2 * kv_heads, config.head_dim).transpose(1, 2)
        rotated = _rotate(rms_norm(split[:, :-kv_heads], block.qk_norm, config.rms_norm_eps), *rope)
        return rotated[:, :heads], rotated[:, heads:], split[:, -kv_heads:]


def _write(cached: torch.Tensor, new: torch.Tensor, index: CacheIndex) -> None:
    """Writes (n, kv heads, t, head_dim) to a layer's cache."""
    if index.first is not None:
        cached[index.selection, :, index.first : index.first + new.shape[2]] = new
    else:
        cached[index.slots, :, index.positions] = new.transpose(1, 2)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return x * cos + x.roll(x.shape[-1] // 2, -1) * sin


def load_stack(
    checkpoint: Checkpoint, prefix: str, config: StackConfig, *, keep_transposed: bool = False, compiled: bool = False
) -> Stack:
    """The blocks and the norm under `prefix`, such as "talker.model.".  `keep_transposed`: see PackedLinear."""
    names = [f"{prefix}layers.{index}." for index in range(config.num_hidden_layers)]
    blocks = [load_block(checkpoint, name, config, keep_transposed=keep_transposed) for name in names]
    norm = checkpoint.read(f"{prefix}norm.weight", (config.hidden_size,))
    return Stack(config, blocks, norm, compiled=compiled)
