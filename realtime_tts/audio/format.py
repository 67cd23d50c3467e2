"""What do the bytes of an audio stream mean?  Encoding, rate, and the conversions between bytes, samples, seconds."""

from dataclasses import dataclass
from enum import StrEnum

from realtime_tts.errors import UnsupportedFormat

MIN_SAMPLE_RATE_HZ, MAX_SAMPLE_RATE_HZ = 8_000, 48_000


class Encoding(StrEnum):
    """`response_format` on the wire."""

    PCM = "pcm"
    """Signed 16-bit little-endian."""
    WAV = "wav"
    """The same, behind a RIFF header."""


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """Raises `UnsupportedFormat` for a rate outside 8000 to 48000 Hz, or anything but mono."""

    encoding: Encoding
    sample_rate_hz: int
    channels: int = 1

    def __post_init__(self) -> None:
        if not MIN_SAMPLE_RATE_HZ <= self.sample_rate_hz <= MAX_SAMPLE_RATE_HZ:
            raise UnsupportedFormat(
                f"sample_rate: must be from {MIN_SAMPLE_RATE_HZ} to {MAX_SAMPLE_RATE_HZ} Hz, "
                f"got {str(self.sample_rate_hz)[:40]}"
            )
        if self.channels != 1:
            raise UnsupportedFormat(f"speech is mono, got {self.channels} channels")

    @classmethod
    def parse(cls, response_format: str, sample_rate_hz: int) -> "AudioFormat":
        """From the wire's words; raises `UnsupportedFormat`, which names what there is."""
        try:
            encoding = Encoding(response_format)
        except ValueError:
            raise UnsupportedFormat(
                f"response_format: {response_format[:40]!r} is not supported; there are {', '.join(Encoding)}"
            ) from None
        return cls(encoding, sample_rate_hz)

    @property
    def bytes_per_sample(self) -> int:
        """Of all channels together, headers not counted."""
        return 2 * self.channels

    def samples_in(self, size_bytes: int) -> int:
        """Whole samples in so many bytes of audio without a header."""
        return size_bytes // self.bytes_per_sample

    def seconds(self, samples: int) -> float:
        return samples / self.sample_rate_hz
