"""Packets, which encoders produce: one binary frame of the wire, and the number of its samples."""

from typing import Protocol

from msgspec import Struct

from realtime_tts.audio.pcm import Float32


class Packet(Struct, frozen=True, gc=False):
    """One binary frame.  `samples` are those of its audio, at the wire's rate, without padding and pre-skip.

    A Struct, since there are many: it is created in C.
    """

    data: bytes
    samples: int


class Encoder(Protocol):
    """Encoder of one sentence's audio: chunks in, packets out, the last ones by `flush`."""

    @property
    def pre_skip_samples(self) -> int:
        """Decoded samples at the wire's rate that a listener drops at the start (Opus packets), else 0."""

    def encode(self, samples: Float32) -> list[Packet]:
        """The next samples (n,) at the model's rate; n may be 0, and there may be no packet yet."""

    def flush(self) -> list[Packet]:
        """The rest; nothing may follow."""
