"""Cache of encoded voices within a memory limit, so that later sentences of a voice start without encoding it."""

from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from torch import Tensor

from realtime_tts.engine.models.qwen3.layers import KVPrefix

OVERHEAD_BYTES = 1024
"""Counted for each voice in addition to its arrays, so that the number of tiny voices is limited too."""


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """The Talker's keys and values of a prompt before its text, and what they depend on besides the voice."""

    language: str | None
    transcript: str
    kv: KVPrefix

    def matches(self, language: str | None, transcript: str) -> bool:
        return (self.language, self.transcript) == (language, transcript)


@dataclass(frozen=True, slots=True, eq=False)
class Voice:
    """An encoded reference recording.  Its arrays must not change, nor share memory with any that do."""

    codes: npt.NDArray[np.int64] | None
    """(frames, 16); None if only the x-vector is used."""
    x_vector: Tensor
    decoder_state: Tensor | None
    """`StateArena.snapshot` after `codes`: a decoder that continues from here continues the recording."""
    prefix: Prefix | None = None
    """The last one used: a voice rarely has two languages or transcripts at a time."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory; a view counts as the whole array that it keeps alive."""
        kv = () if self.prefix is None else (self.prefix.kv.keys, self.prefix.kv.values)
        tensors = [tensor for tensor in (self.x_vector, self.decoder_state, *kv) if tensor is not None]
        tensor_bytes: int = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
        return OVERHEAD_BYTES + tensor_bytes + (0 if self.codes is None else _storage_bytes(self.codes))


def _storage_bytes(array: npt.NDArray[np.int64]) -> int:
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return owner.nbytes


class VoiceCache:
    """The most recently used voices, in at most `limit_bytes`.

    A key is a digest of the inputs of a voice, such as `Reference.key`.  Owned by the thread of one lane; no locks.
    """

    def __init__(self, limit_bytes: int) -> None:
        if limit_bytes < 0:
            raise ValueError(f"limit_bytes must not be negative, got {limit_bytes}")
        self.limit_bytes = limit_bytes
        self._voices: OrderedDict[str, tuple[Voice, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._voices)

    def __contains__(self, key: str) -> bool:
        """Whether a voice is cached; does not count as use."""
        return key in self._voices

    @property
    def nbytes(self) -> int:
        return self._bytes

    def get(self, key: str) -> Voice | None:
        if key not in self._voices:
            return None
        self._voices.move_to_end(key)
        return self._voices[key][0]

    def put(self, key: str, voice: Voice) -> bool:
        """Adds the voice as the most recently used one, or replaces its older version.  Returns whether it fits.

        A voice larger than the whole cache is not cached, and evicts no other.
        """
        self.discard(key)
        size = voice.nbytes
        if size > self.limit_bytes:
            return False
        while self._bytes + size > self.limit_bytes:
            self.discard(next(iter(self._voices)))
        self._voices[key] = voice, size
        self._bytes += size
        return True

    def extend(self, key: str, prefix: Prefix) -> bool:
        """Adds a prefix to a cached voice, or replaces it.  Returns whether it fits; if not, the voice is unchanged."""
        if key not in self._voices:
            return False
        extended = replace(self._voices[key][0], prefix=prefix)
        return extended.nbytes <= self.limit_bytes and self.put(key, extended)

    def discard(self, key: str) -> None:
        if key in self._voices:
            self._bytes -= self._voices.pop(key)[1]
