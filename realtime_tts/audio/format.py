"""Audio formats: encoding, sample rate, and conversions between bytes, samples and seconds."""

from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec

from realtime_tts.errors import UnsupportedFormat

MIN_SAMPLE_RATE_HZ, MAX_SAMPLE_RATE_HZ = 8_000, 48_000


class Encoding(StrEnum):
    """`response_format` on the wire."""

    PCM = "pcm"
    """Signed 16-bit little-endian."""
    WAV = "wav"
    """The same, after a RIFF header."""
    PCM_MULAW = "pcm_mulaw"
    """G.711 mu-law, 8 bits a sample."""
    PCM_ALAW = "pcm_alaw"
    """G.711 A-law, 8 bits a sample."""
    OPUS = "opus"
    """Streamed: raw packets of 20 ms, one a frame.  Whole: an Ogg Opus file."""
    FLAC = "flac"
    MP3 = "mp3"
    AAC = "aac"
    """AAC-LC in ADTS frames.  Needs the extra `aac`."""


_G711 = (Encoding.PCM_MULAW, Encoding.PCM_ALAW)
_BYTES_PER_SAMPLE = {Encoding.PCM: 2, Encoding.WAV: 2, Encoding.PCM_MULAW: 1, Encoding.PCM_ALAW: 1}
_RATES_HZ = {
    Encoding.OPUS: (8_000, 12_000, 16_000, 24_000, 48_000),  # RFC 6716, 2
    Encoding.MP3: (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000),  # MPEG-1, -2 and -2.5
    Encoding.AAC: (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
}
"""For formats that do not support every rate."""
_MIME_TYPES = {
    Encoding.PCM: "audio/pcm",
    Encoding.WAV: "audio/wav",
    Encoding.PCM_MULAW: "audio/PCMU",
    Encoding.PCM_ALAW: "audio/PCMA",
    Encoding.OPUS: "audio/ogg",
    Encoding.FLAC: "audio/flac",
    Encoding.MP3: "audio/mpeg",
    Encoding.AAC: "audio/aac",
}


def has_aac() -> bool:
    """Whether PyAV is installed, without importing it."""
    return find_spec("av") is not None


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """Raises `UnsupportedFormat` for a rate outside 8000 to 48000 Hz or not of the format, or anything but mono."""

    encoding: Encoding
    sample_rate_hz: int
    channels: int = 1

    def __post_init__(self) -> None:
        if not MIN_SAMPLE_RATE_HZ <= self.sample_rate_hz <= MAX_SAMPLE_RATE_HZ:
            raise UnsupportedFormat(
                f"must be from {MIN_SAMPLE_RATE_HZ} to {MAX_SAMPLE_RATE_HZ} Hz, got {str(self.sample_rate_hz)[:40]}",
                param="sample_rate",
            )
        rates_hz = _RATES_HZ.get(self.encoding)
        if rates_hz is not None and self.sample_rate_hz not in rates_hz:
            raise UnsupportedFormat(
                f"{self.encoding} supports {', '.join(map(str, rates_hz))} Hz, got {self.sample_rate_hz}",
                param="sample_rate",
            )
        if self.channels != 1:
            raise UnsupportedFormat(f"speech is mono, got {self.channels} channels")

    @classmethod
    def parse(cls, response_format: str, sample_rate_hz: int) -> "AudioFormat":
        """From the names on the wire.  Raises `UnsupportedFormat`, which lists the supported formats."""
        if response_format == Encoding.AAC and not has_aac():
            raise UnsupportedFormat(
                "aac needs a package that this server does not have: pip install 'realtime-tts[aac]'",
                param="response_format",
            )
        try:
            encoding = Encoding(response_format)
        except ValueError:
            raise UnsupportedFormat(
                f"{response_format[:40]!r} is not supported; use one of {', '.join(Encoding)}", param="response_format"
            ) from None
        return cls(encoding, sample_rate_hz)

    @staticmethod
    def default_rate_hz(response_format: str, model_rate_hz: int) -> int:
        """The rate if none is requested: 8000 for G.711, else the model's, or the format's next above it.

        A format that does not exist is not refused here, but by `parse`.
        """
        if response_format in _G711:
            return 8_000
        rates_hz = next((rates for encoding, rates in _RATES_HZ.items() if encoding == response_format), None)
        if rates_hz is None:
            return model_rate_hz
        return min((rate_hz for rate_hz in rates_hz if rate_hz >= model_rate_hz), default=rates_hz[-1])

    @property
    def mime_type(self) -> str:
        """HTTP's Content-Type of a complete file, with the rate where the bytes do not state it."""
        if self.encoding is Encoding.PCM_MULAW and self.sample_rate_hz == 8_000:
            return "audio/basic"  # RFC 2046
        name = _MIME_TYPES[self.encoding]
        headerless = self.encoding is Encoding.PCM or self.encoding in _G711
        return f"{name};rate={self.sample_rate_hz}" if headerless else name  # RFC 4856 for G.711

    @property
    def bytes_per_sample(self) -> int:
        """Of all channels together, without headers.  Raises `ValueError` for a compressed format."""
        size_bytes = _BYTES_PER_SAMPLE.get(self.encoding)
        if size_bytes is None:
            raise ValueError(f"{self.encoding} is compressed: the number of its samples does not follow from its bytes")
        return size_bytes * self.channels

    def samples_in(self, size_bytes: int) -> int:
        """Whole samples in `size_bytes` of uncompressed audio without a header."""
        return size_bytes // self.bytes_per_sample

    def seconds(self, samples: int) -> float:
        return samples / self.sample_rate_hz
