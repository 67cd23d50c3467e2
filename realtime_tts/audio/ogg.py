"""Ogg Opus files: RFC 3533 pages around the packets of `opus.py`, as RFC 7845 lays them out.

libsndfile can write these too, but only at libopus' full complexity: 27 ms a second of audio against 2, a second's
work at once.
"""

import struct
import zlib
from collections.abc import Sequence

_FIRST, _LAST = 2, 4
"""Flags of a page."""
_PACKETS_PER_PAGE = 50
"""One second.  A page holds 255 segments of up to 255 bytes."""
_GRANULE_HZ = 48_000
"""Opus counts its time at this rate, whatever the sample rate."""
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def ogg_opus(packets: Sequence[bytes], *, sample_rate_hz: int, pre_skip_samples: int, samples: int) -> bytes:
    """One logical stream of 20 ms mono packets, of which `samples` after the pre-skip are sound."""
    scale = _GRANULE_HZ // sample_rate_hz
    serial = zlib.crc32(b"".join(packets))  # differs where the sound does, so that files can be chained
    head = struct.pack("<8sBBHIhB", b"OpusHead", 1, 1, pre_skip_samples * scale, sample_rate_hz, 0, 0)
    vendor = b"realtime-tts"
    tags = struct.pack("<8sI", b"OpusTags", len(vendor)) + vendor + bytes(4)
    pages = [_page([head], _FIRST, 0, serial, 0), _page([tags], 0, 0, serial, 1)]
    for start in range(0, len(packets), _PACKETS_PER_PAGE):
        end = start + _PACKETS_PER_PAGE
        granule, flags = end * _GRANULE_HZ // 50, 0
        if end >= len(packets):
            granule, flags = (pre_skip_samples + samples) * scale, _LAST  # what lies beyond is cut off
        pages.append(_page(packets[start:end], flags, granule, serial, len(pages)))
    return b"".join(pages)


def _page(packets: Sequence[bytes], flags: int, granule: int, serial: int, number: int) -> bytes:
    lacing = b"".join(b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255]) for packet in packets)
    assert len(lacing) <= 255, f"{len(lacing)} segments do not fit into a page"
    start = struct.pack("<4sBBqII", b"OggS", 0, flags, granule, serial, number)
    rest = bytes([len(lacing)]) + lacing + b"".join(packets)
    return start + struct.pack("<I", _crc(start + bytes(4) + rest)) + rest


def _crc(data: bytes) -> int:
    """RFC 3533's CRC: zlib's polynomial, but with the highest bit first, from zero, and not inverted at the end."""
    mirrored = zlib.crc32(data.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(_REVERSED), "big")
