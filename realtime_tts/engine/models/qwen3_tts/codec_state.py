"""What a stream's decoder remembers: a row of floats a slot, allocated once, copied whole to keep or bring back."""

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor


class StateArena:
    """Rows of state for `slots` streams.  A slot is acquired cold (all zeros: silence before the first frame).

    A row is contiguous, so a snapshot is one copy; each part of it (a convolution's last inputs, a layer's keys) is
    seen through a view [slots, *shape].  Owned by the thread of one lane, as are all its slots.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], slots: int, device: torch.device) -> None:
        if slots < 1:
            raise ValueError(f"an arena needs a slot, got {slots}")
        sizes = {name: prod(shape) for name, shape in shapes.items()}
        self._rows = torch.zeros(slots, sum(sizes.values()), dtype=torch.float32, device=device)
        parts = torch.split(self._rows, list(sizes.values()), dim=1)
        self.views = {name: part.view(slots, *shapes[name]) for name, part in zip(shapes, parts, strict=True)}
        self._free = list(range(slots))[::-1]
        self._held: set[int] = set()

    @property
    def slots(self) -> int:
        return self._rows.shape[0]

    @property
    def free(self) -> int:
        """Slots that nobody holds."""
        return len(self._free)

    @property
    def bytes_per_slot(self) -> int:
        return self._rows.shape[1] * self._rows.element_size()

    def acquire(self) -> int:
        """A cold slot.  Whoever asks knows from `free` that there is one: admission counts streams."""
        if not self._free:
            raise RuntimeError(f"all {self.slots} decoder slots are held")
        slot = self._free.pop()
        self._held.add(slot)
        self._rows[slot].zero_()
        return slot

    def release(self, slot: int) -> None:
        self.check(slot)
        self._held.remove(slot)
        self._free.append(slot)

    def snapshot(self, slot: int) -> Tensor:
        """A copy of the slot's state, [floats]: where `restore` puts it, in any slot, the stream goes on from here."""
        self.check(slot)
        return self._rows[slot].clone()

    def restore(self, slot: int, state: Tensor) -> None:
        self.check(slot)
        if state.shape != self._rows.shape[1:] or state.dtype != self._rows.dtype:
            raise ValueError(
                f"a state of {tuple(state.shape)} {state.dtype} is not one of {self._rows.shape[1]} floats"
            )
        self._rows[slot].copy_(state)

    def check(self, slot: int) -> None:
        """Raises ValueError for a slot that nobody holds: it may be another stream's by tomorrow."""
        if slot not in self._held:
            raise ValueError(f"decoder slot {slot} is not held")


class Carry:
    """The states of one batch: row i of what passes through continues the stream in slot `index[i]`.

    Reads and writes go through an index tensor, never through Python numbers: a captured CUDA graph can be replayed for
    other slots by writing other numbers into that tensor.
    """

    def __init__(self, views: Mapping[str, Tensor], index: Tensor) -> None:
        self._views = views
        self._index = index

    def read(self, name: str) -> Tensor:
        return self._views[name].index_select(0, self._index)

    def write(self, name: str, value: Tensor) -> None:
        self._views[name].index_copy_(0, self._index, value)

    def extend(self, name: str, x: Tensor, dim: int = -1) -> Tensor:
        """`x` with what came before it in front; the last of both is kept for the next time."""
        past = self.read(name)
        both = torch.cat((past, x), dim)
        kept = past.shape[dim]
        self.write(name, both.narrow(dim, both.shape[dim] - kept, kept))
        return both
