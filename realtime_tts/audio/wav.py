"""RIFF/WAVE headers, for whole files and for streams whose length is not yet known."""

import struct

from realtime_tts.audio.format import AudioFormat

UNKNOWN_SIZE = 0xFFFFFFFF
"""Written by FFmpeg where it cannot seek back (libavformat/wavenc.c, riffenc.c); readers read to the end then."""
HEADER_BYTES = 44


def wav_header(audio_format: AudioFormat, size_bytes: int | None) -> bytes:
    """The 44 bytes before `size_bytes` of 16-bit PCM (None: unknown).

    Layout: Microsoft, "Multimedia Programming Interface and Data Specifications 1.0", RIFF WAVE, PCM.
    """
    riff_size = UNKNOWN_SIZE if size_bytes is None else size_bytes + HEADER_BYTES - 8
    frame_bytes = audio_format.bytes_per_sample
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        riff_size,
        b"WAVE",
        b"fmt ",
        16,
        1,  # PCM
        audio_format.channels,
        audio_format.sample_rate_hz,
        audio_format.sample_rate_hz * frame_bytes,
        frame_bytes,
        16,  # bits
        b"data",
        UNKNOWN_SIZE if size_bytes is None else size_bytes,
    )
