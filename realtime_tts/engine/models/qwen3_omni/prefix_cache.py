"""Cache of the Talker's keys and values of conversations, so that the next turn reads only what is new."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realtime_tts.engine.api import SpokenContext
from realtime_tts.engine.models.qwen3.layers import KVPrefix

LIMIT_BYTES = 512 * 1024**2
"""26,000 positions in bf16, 20 KiB each."""


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    content: "_Content"
    kv: KVPrefix

    @property
    def nbytes(self) -> int:
        tensors: int = self.kv.keys.nbytes + self.kv.values.nbytes
        return tensors + self.content.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class _Content:
    """What the hidden states of a context depend on."""

    ids: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]
    """(3, t)"""
    pads: npt.NDArray[np.bool_]
    rows: npt.NDArray[np.generic] | None

    @property
    def nbytes(self) -> int:
        return self.ids.nbytes + self.positions.nbytes + (0 if self.rows is None else self.rows.nbytes)

    def common(self, other: "_Content") -> int:
        """The number of first positions that are equal."""
        length = min(len(self.ids), len(other.ids))
        equal = self.ids[:length] == other.ids[:length]
        equal &= (self.positions[:, :length] == other.positions[:, :length]).all(0)
        if self.rows is not None and other.rows is not None:
            shared = min(len(self.rows), len(other.rows))
            same = (self.rows[:shared] == other.rows[:shared]).all(1)
            places = np.flatnonzero(self.pads[:length])[:shared]
            equal[places] &= same[: len(places)]
        return length if equal.all() else int(equal.argmin())


class PrefixCache:
    """The most recently used conversations, in at most `limit_bytes`.  Owned by the thread of one lane."""

    def __init__(self, pads: frozenset[int], limit_bytes: int = LIMIT_BYTES) -> None:
        self._pads = sorted(pads)
        self._limit_bytes = limit_bytes
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, context: SpokenContext) -> KVPrefix | None:
        """Keys and values of the longest beginning that a cached conversation shares."""
        content = self._content(context)
        best, length = None, 0
        for key, entry in self._entries.items():
            if (common := entry.content.common(content)) > length:
                best, length = key, common
        if best is None:
            return None
        self._entries.move_to_end(best)
        kv = self._entries[best].kv
        return KVPrefix(kv.keys[:, :, :length], kv.values[:, :, :length])

    def put(self, context: SpokenContext, kv: KVPrefix) -> None:
        """Adds a conversation, which replaces those that it continues."""
        entry = _Entry(self._content(context), kv)
        continued = [
            key
            for key, each in self._entries.items()
            if key == context.key or each.content.common(entry.content) == len(each.content.ids)
        ]
        for key in continued:
            self._discard(key)
        if entry.nbytes > self._limit_bytes:
            return
        while self._bytes + entry.nbytes > self._limit_bytes:
            self._discard(next(iter(self._entries)))
        self._entries[context.key] = entry
        self._bytes += entry.nbytes

    def __contains__(self, key: str) -> bool:
        """Whether a conversation is cached; does not count as use."""
        return key in self._entries

    def _discard(self, key: str) -> None:
        self._bytes -= self._entries.pop(key).nbytes

    def _content(self, context: SpokenContext) -> _Content:
        plain = np.arange(len(context.ids), dtype=np.int32)
        positions = np.broadcast_to(plain, (3, len(plain))) if context.positions is None else context.positions
        return _Content(context.ids, positions, np.isin(context.ids, self._pads), context.rows)
