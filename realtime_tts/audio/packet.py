"""What leaves an encoder: one binary frame of the wire, and how much sound it holds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Packet:
    """One binary frame.  `samples` is the sound in it, at the wire's rate: padding and pre-skip are not sound."""

    data: bytes
    samples: int
