"""What has been worked out for a voice, kept while it fits: so a second sentence in it starts as soon as any other."""

from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from torch import Tensor

from realtime_tts.engine.models.qwen3_tts.layers import KVPrefix

OVERHEAD_BYTES = 1024
"""Counted for each voice besides its arrays, so that a crowd of tiny ones is bounded too."""


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """What the Talker keeps of a prompt up to the text, and what that depends on beside the voice."""

    language: str | None
    transcript: str
    kv: KVPrefix

    def fits(self, language: str | None, transcript: str) -> bool:
        return (self.language, self.transcript) == (language, transcript)


@dataclass(frozen=True, slots=True, eq=False)
class Voice:
    """A reference recording, ready for use.  Nothing of it may be changed afterwards, nor share memory with what is."""

    codes: npt.NDArray[np.int64] | None
    """(frames, 16); None where only the x-vector is used."""
    x_vector: Tensor
    decoder_state: Tensor | None
    """`StateArena.snapshot` after `codes`: a decoder that goes on from here has heard the reference."""
    prefix: Prefix | None = None
    """That which was used last: a voice is seldom used in two languages, or with two transcripts, at a time."""

    @property
    def nbytes(self) -> int:
        """Memory held, counted for a view as all that it keeps alive."""
        kept = () if self.prefix is None else (self.prefix.kv.keys, self.prefix.kv.values)
        tensors = [tensor for tensor in (self.x_vector, self.decoder_state, *kept) if tensor is not None]
        held: int = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
        return OVERHEAD_BYTES + held + (0 if self.codes is None else _held_bytes(self.codes))


def _held_bytes(array: npt.NDArray[np.int64]) -> int:
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return owner.nbytes


class VoiceCache:
    """The most recently used voices, of `limit_bytes` at the most.

    A key is a digest of all that a voice was made from, such as `Reference.key`.  Belongs to the thread of one lane:
    nothing here locks.
    """

    def __init__(self, limit_bytes: int) -> None:
        if limit_bytes < 0:
            raise ValueError(f"a cache cannot hold {limit_bytes} bytes")
        self.limit_bytes = limit_bytes
        self._voices: OrderedDict[str, tuple[Voice, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._voices)

    def __contains__(self, key: str) -> bool:
        """Whether it is there, without counting as use."""
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
        """Keeps the voice as the most recently used one, in the place of an older version; says whether it fits.

        One that is larger than the whole cache drives nothing out: it is used once, and forgotten.
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
        """Keeps a prefix with its voice, in the place of another; where it would not fit, the voice stays as it was."""
        if key not in self._voices:
            return False
        longer = replace(self._voices[key][0], prefix=prefix)
        return longer.nbytes <= self.limit_bytes and self.put(key, longer)

    def discard(self, key: str) -> None:
        if key in self._voices:
            self._bytes -= self._voices.pop(key)[1]

    def clear(self) -> None:
        self._voices.clear()
        self._bytes = 0
