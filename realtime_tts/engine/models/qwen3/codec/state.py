"""Decoder state of streams: one row of floats per slot, allocated once, saved and restored by one copy."""

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor


class StateArena:
    """Rows of state for `slots` streams.  An acquired slot is all zeros: silence before the first frame.

    A row is contiguous, so a snapshot is one copy; each part of it (a convolution's last inputs, a layer's keys) has a
    view [slots, *shape].  Owned by the thread of one lane.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], slots: int, device: torch.device) -> None:
        if slots < 1:
            raise ValueError(f"slots must be positive, got {slots}")
        sizes = {name: prod(shape) for name, shape in shapes.items()}
        self._rows = torch.zeros(slots, sum(sizes.values()), dtype=torch.float32, device=device)
        parts = torch.split(self._rows, list(sizes.values()), dim=1)
        self.views = {name: part.view(slots, *shapes[name]) for name, part in zip(shapes, parts, strict=True)}
        self._free = list(range(slots))[::-1]
        self._acquired: set[int] = set()

    @property
    def slots(self) -> int:
        return self._rows.shape[0]

    @property
    def free(self) -> int:
        """The number of free slots."""
        return len(self._free)

    def acquire(self) -> int:
        """A zeroed slot.  One must be free: admission limits the streams to the slots."""
        if not self._free:
            raise RuntimeError(f"all {self.slots} decoder slots are in use")
        slot = self._free.pop()
        self._acquired.add(slot)
        self._rows[slot].zero_()
        return slot

    def release(self, slot: int) -> None:
        self.check(slot)
        self._acquired.remove(slot)
        self._free.append(slot)

    def snapshot(self, slot: int) -> Tensor:
        """A copy of the slot's state, [floats].  A slot that it is restored to continues the stream from here."""
        self.check(slot)
        return self._rows[slot].clone()

    def restore(self, slot: int, state: Tensor) -> None:
        self.check(slot)
        if state.shape != self._rows.shape[1:] or state.dtype != self._rows.dtype:
            raise ValueError(f"a state must be {self._rows.shape[1]} floats, not {tuple(state.shape)} of {state.dtype}")
        self._rows[slot].copy_(state)

    def check(self, slot: int) -> None:
        """Raises ValueError for a slot that is not acquired, which may later be another stream's."""
        if slot not in self._acquired:
            raise ValueError(f"decoder slot {slot} is not acquired")


class Carry:
    """The states of one batch: row i continues the stream in slot `index[i]`.

    Reads and writes use an index tensor and no Python integers, so that a captured CUDA graph can be replayed for other
    slots by changing that tensor.
    """

    def __init__(self, views: Mapping[str, Tensor], index: Tensor) -> None:
        self._views = views
        self._index = index

    def read(self, name: str) -> Tensor:
        return self._views[name].index_select(0, self._index)

    def write(self, name: str, value: Tensor) -> None:
        self._views[name].index_copy_(0, self._index, value)

    def extend(self, name: str, x: Tensor, dim: int = -1) -> Tensor:
        """`x` after the inputs kept from the last chunk; the last inputs of both are kept for the next."""
        past = self.read(name)
        extended = torch.cat((past, x), dim)
        size = past.shape[dim]
        self.write(name, extended.narrow(dim, extended.shape[dim] - size, size))
        return extended
