"""Ogg Opus files: RFC 3533 pages around the packets of `opus.py`, as RFC 7845 lays them out.

libsndfile can write these too, but only at the full complexity of libopus, which needs 27 ms for a second of audio
instead of 2, and works on a second at a time.
"""

import struct
import zlib
from collections.abc import Sequence

from realtime_tts.audio.packet import Encoder, Packet
from realtime_tts.audio.pcm import Float32

_FIRST, _LAST = 2, 4
"""Flags of a page."""
PACKETS_PER_PAGE = 50
"""One second.  A page holds 255 segments of up to 255 bytes."""
PACKETS_PER_STREAMED_PAGE = 5
"""100 ms: a page costs 28 bytes and one for each packet, 3 kbit/s."""
_GRANULE_HZ = 48_000
"""Opus counts its time at this rate, whatever the sample rate."""
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class OggPages:
    """One logical stream of 20 ms mono packets, page by page."""

    def __init__(self, *, sample_rate_hz: int, pre_skip_samples: int, serial: int) -> None:
        self._scale = _GRANULE_HZ // sample_rate_hz
        self._rate_hz = sample_rate_hz
        self._pre_skip_samples = pre_skip_samples
        self._serial = serial
        self._packets = 0
        self._pages = 0

    def head(self) -> bytes:
        skip = self._pre_skip_samples * self._scale
        head = struct.pack("<8sBBHIhB", b"OpusHead", 1, 1, skip, self._rate_hz, 0, 0)
        vendor = b"realtime-tts"
        tags = struct.pack("<8sI", b"OpusTags", len(vendor)) + vendor + bytes(4)
        return self._add([head], _FIRST, 0) + self._add([tags], 0, 0)

    def page(self, packets: Sequence[bytes], *, samples: int | None = None) -> bytes:
        """The next packets, at most `PACKETS_PER_PAGE`.  With the last ones, `samples` is the length of the audio."""
        self._packets += len(packets)
        if samples is None:
            return self._add(packets, 0, self._packets * _GRANULE_HZ // 50)
        # A decoder drops everything after it.
        return self._add(packets, _LAST, (self._pre_skip_samples + samples) * self._scale)

    def _add(self, packets: Sequence[bytes], flags: int, granule: int) -> bytes:
        page = _page(packets, flags, granule, self._serial, self._pages)
        self._pages += 1
        return page


def ogg_opus(packets: Sequence[bytes], *, sample_rate_hz: int, pre_skip_samples: int, samples: int) -> bytes:
    """A whole file, in which `samples` after the pre-skip are audio."""
    serial = zlib.crc32(b"".join(packets))  # differs for different audio, so that files can be chained
    pages = OggPages(sample_rate_hz=sample_rate_hz, pre_skip_samples=pre_skip_samples, serial=serial)
    parts = [pages.head()]
    for start in range(0, len(packets), PACKETS_PER_PAGE):
        end = start + PACKETS_PER_PAGE
        parts.append(pages.page(packets[start:end], samples=samples if end >= len(packets) else None))
    return b"".join(parts)


class OggOpusStream:
    """A file as a stream, page by page, around an encoder that returns bare packets."""

    pre_skip_samples = 0
    """The file states its own pre-skip."""

    def __init__(self, encoder: Encoder, sample_rate_hz: int, *, serial: int) -> None:
        self._encoder = encoder
        self._pages = OggPages(sample_rate_hz=sample_rate_hz, pre_skip_samples=encoder.pre_skip_samples, serial=serial)
        self._waiting: list[Packet] = []
        self._samples = 0
        self._started = False

    def encode(self, samples: Float32) -> list[Packet]:
        self._waiting += self._encoder.encode(samples)
        full = []
        # The last page is marked as such: one packet always waits for it.
        while len(self._waiting) > PACKETS_PER_STREAMED_PAGE:
            full.append(self._page(PACKETS_PER_STREAMED_PAGE))
        return full

    def flush(self) -> list[Packet]:
        self._waiting += self._encoder.flush()
        rest = []
        while len(self._waiting) > PACKETS_PER_STREAMED_PAGE:
            rest.append(self._page(PACKETS_PER_STREAMED_PAGE))
        return [*rest, self._page(len(self._waiting), last=True)] if self._waiting else rest

    def _page(self, count: int, *, last: bool = False) -> Packet:
        packets, self._waiting = self._waiting[:count], self._waiting[count:]
        samples = sum(packet.samples for packet in packets)
        self._samples += samples
        data = b"" if self._started else self._pages.head()
        self._started = True
        data += self._pages.page([packet.data for packet in packets], samples=self._samples if last else None)
        return Packet(data, samples)


def _page(packets: Sequence[bytes], flags: int, granule: int, serial: int, number: int) -> bytes:
    lacing = b"".join(b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255]) for packet in packets)
    assert len(lacing) <= 255, f"{len(lacing)} segments do not fit into a page"
    start = struct.pack("<4sBBqII", b"OggS", 0, flags, granule, serial, number)
    rest = bytes([len(lacing)]) + lacing + b"".join(packets)
    return start + struct.pack("<I", _crc(start + bytes(4) + rest)) + rest


def _crc(data: bytes) -> int:
    """The CRC of RFC 3533: the polynomial of zlib, but highest bit first, from zero, and not inverted at the end."""
    mirrored = zlib.crc32(data.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(_REVERSED), "big")
