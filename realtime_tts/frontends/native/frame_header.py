"""The optional header of a binary frame: the sentence of its audio, and the position within that."""

import struct
from dataclasses import dataclass

VERSION = 1
LAST_OF_SENTENCE = 1

_LAYOUT = struct.Struct("<BBHIII")
HEADER_BYTES = _LAYOUT.size
"""16."""


@dataclass(frozen=True, slots=True)
class FrameHeader:
    context_number: int
    sentence_index: int
    sequence: int
    """Frames of this sentence before this one."""
    sample_offset: int
    """Samples of this sentence before this frame, at the wire's rate."""
    last: bool = False

    def pack(self) -> bytes:
        flags = LAST_OF_SENTENCE if self.last else 0
        return _LAYOUT.pack(VERSION, flags, self.context_number, self.sentence_index, self.sequence, self.sample_offset)

    @classmethod
    def unpack(cls, frame: bytes) -> "FrameHeader":
        """Raises ValueError if `frame` does not begin with a header of a known version."""
        if len(frame) < HEADER_BYTES:
            raise ValueError(f"a frame with a header has at least {HEADER_BYTES} bytes, this has {len(frame)}")
        version, flags, context, sentence, sequence, offset = _LAYOUT.unpack_from(frame)
        if version != VERSION:
            raise ValueError(f"a frame header of version {version}, not {VERSION}")
        return cls(context, sentence, sequence, offset, last=bool(flags & LAST_OF_SENTENCE))
