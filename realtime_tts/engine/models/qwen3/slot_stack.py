"""Steps of a stack by one position for each of several slots, captured as CUDA graphs on a GPU."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from realtime_tts.engine.models.qwen3.cuda_graph import GraphCache
from realtime_tts.engine.models.qwen3.layers import CacheIndex, SlotCache, Span, Stack

MIN_WINDOW = 256
"""The shortest attention window that is captured, in positions; the others are its doubles."""


@dataclass(frozen=True, slots=True)
class SlotBatch:
    """The slots that a step computes, and those whose results are used."""

    slots: Sequence[int]
    """Used, from the lowest."""
    order: Sequence[int]
    """Computed: the object `slots` itself, or a captured range that contains it."""
    order_index: "slice | torch.Tensor"
    """`order` as an index of a tensor of slots."""
    slots_index: torch.Tensor
    """`slots` as an index of a tensor of slots."""
    rows: "slice | torch.Tensor"
    """`slots` as an index of the computed rows."""


class SlotStack:
    """A stack over the slots of a cache.  Owned by one thread.

    A captured step always computes the lowest slots, so that nothing has to be gathered; the state of a slot that was
    not requested does not change.
    """

    def __init__(self, stack: Stack, cache: SlotCache, slots: int) -> None:
        self._stack = stack
        self._cache = cache
        self._slots = slots
        self._device = cache.keys.device
        self._graphs: GraphCache[tuple[int, int]] = GraphCache(self._captured_stack, self._device)
        self._buckets: tuple[int, ...] = ()

    @property
    def bucket_sizes(self) -> tuple[int, ...]:
        """1, 2, 4, … rows, up to all slots."""
        return tuple(sorted({min(1 << n, self._slots) for n in range(self._slots.bit_length() + 1)}))

    def capture(self, rows: int, inputs: torch.Tensor) -> None:
        """Captures steps of this number of rows, with inputs (rows, 1, hidden).  The cache must be unused."""
        self._buckets = (*self._buckets, rows)
        idle = Span(range(rows), [0] * rows, [1] * rows)
        for window in self._windows():
            with torch.inference_mode():
                self._graphs.capture((rows, window), *self._inputs(inputs, idle, window, None))

    def end_capture(self) -> None:
        """Forgets what the captures wrote to the cache."""
        self._cache.keys.zero_()
        self._cache.values.zero_()

    def batch(self, slots: Sequence[int]) -> SlotBatch:
        """These slots, from the lowest, within the smallest captured range that contains them if there is one."""
        order: Sequence[int] = slots
        if bucket := next((rows for rows in self._buckets if rows > slots[-1]), None):
            order = range(bucket)
        index = torch.tensor(order, device=self._device)
        slots_index = index if order is slots else torch.tensor(slots, device=self._device)
        contiguous = order[-1] - order[0] == len(order) - 1
        return SlotBatch(
            slots=slots,
            order=order,
            order_index=slice(order[0], order[-1] + 1) if contiguous else index,
            slots_index=slots_index,
            rows=slice(None) if order is slots else slots_index,
        )

    def step(self, batch: SlotBatch, inputs: torch.Tensor, past: Sequence[int], offsets: Sequence[int]) -> torch.Tensor:
        """The hidden states (n, hidden) of the batch's computed rows, after one more position of its slots.

        `inputs` (n, hidden), the positions in the cache and the offsets of the rotary positions are those of `order`.
        """
        used = set(batch.slots)
        span = Span(batch.order, past, [int(slot in used) for slot in batch.order])
        rope = self._rope_positions(span, offsets)
        if batch.order is batch.slots:
            return self._stack(inputs[:, None], self._cache, self._cache.index(span, rope=rope))[:, 0]
        window = next(window for window in self._windows() if window >= span.window)
        tensors = self._inputs(inputs[:, None], span, window, rope)
        (hidden,) = self._graphs((len(batch.order), window), *tensors)
        return hidden[:, 0]

    def _windows(self) -> list[int]:
        """The captured attention windows."""
        windows = [MIN_WINDOW]
        while windows[-1] < self._cache.max_len:
            windows.append(2 * windows[-1])
        return [min(window, self._cache.max_len) for window in windows]

    def _rope_positions(self, span: Span, offsets: Sequence[int]) -> torch.Tensor | None:
        """The rotary positions (n, 1) of a step; None if they are those of the cache."""
        if not any(offsets):
            return None
        # Idle rows have no position of their own.
        positions = [max(0, past + offset) for past, offset in zip(span.past, offsets, strict=True)]
        return torch.tensor(positions, device=self._device)[:, None]

    def _inputs(
        self, inputs: torch.Tensor, span: Span, window: int, rope: torch.Tensor | None
    ) -> tuple[torch.Tensor, ...]:
        index = self._cache.index(span, window, rope)
        assert index.mask is not None, "a fixed window has a mask"
        return inputs, index.slots, index.positions, index.mask, *index.rope

    def _captured_stack(self, key: tuple[int, int], *tensors: torch.Tensor) -> tuple[torch.Tensor]:
        """One position for each of the lowest slots."""
        rows, window = key
        inputs, slots, positions, mask, cosine, sine = tensors
        index = CacheIndex(slots, positions, mask, (cosine, sine), slice(0, rows), None, window)
        return (self._stack(inputs, self._cache, index),)
