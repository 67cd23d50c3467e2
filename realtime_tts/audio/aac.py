"""AAC-LC by FFmpeg (PyAV, the extra `aac`), as a stream of ADTS frames (ISO/IEC 14496-3, 1.A.2.2)."""

import contextlib

import numpy as np

from realtime_tts.audio.packet import Packet
from realtime_tts.audio.pcm import Float32, playable

with contextlib.suppress(ImportError):  # without it `AudioFormat` refuses the format
    import av  # not at the first request: it takes 70 ms

FRAME_SAMPLES = 1_024
DELAY_SAMPLES = 1_024
"""Silence before the audio: the first frame of the encoder only fills the overlap of the transform."""
RATES_HZ = (48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000)
_FIRST_RATE_INDEX = 3
"""The number of 48 kHz in the table of sample rates (ISO/IEC 14496-3, 1.6.3.4); the others follow in order."""


def bit_rate(sample_rate_hz: int) -> int:
    """64 kbit/s at 24 kHz, as our MP3."""
    return min(96_000, max(24_000, sample_rate_hz * 8 // 3))


class AacCodec:
    """A decoder returns `DELAY_SAMPLES` of silence, then every sample that was pushed, then padding.

    ADTS cannot state either.  A packet's `samples` count neither: they are the audio that a decoder can make of all
    bytes so far, less what was counted before.
    """

    pre_skip_samples = 0

    def __init__(self, sample_rate_hz: int) -> None:
        context = av.CodecContext.create("aac", "w")
        assert isinstance(context, av.AudioCodecContext), "the encoder of a sound format"
        context.sample_rate = sample_rate_hz
        context.layout = "mono"
        context.format = "fltp"
        context.bit_rate = bit_rate(sample_rate_hz)
        context.options = {"aac_coder": "fast"}  # half the time of the default coder, and 10 dB nearer to the input
        self._encoder: av.AudioCodecContext | None = context
        self._sample_rate_hz = sample_rate_hz
        self._waiting = np.zeros(0, np.float32)
        self._unsent = b""
        """The first frame, which has no audio: it is sent with the second."""
        self._samples_in = 0
        self._frames_out = 0
        self._counted_samples = 0

    def push(self, samples: Float32) -> list[Packet]:
        self._samples_in += len(samples)
        self._waiting = np.concatenate((self._waiting, playable(samples)))
        whole = len(self._waiting) // FRAME_SAMPLES * FRAME_SAMPLES
        frames, self._waiting = self._waiting[:whole], self._waiting[whole:]
        return self._packets(frames)

    def finish(self) -> list[Packet]:
        packets = self._packets(self._waiting, end=True)
        self._encoder = None  # frees the state of FFmpeg
        return packets

    def _packets(self, samples: Float32, *, end: bool = False) -> list[Packet]:
        assert self._encoder is not None, "nothing may follow finish"
        encoded: list[bytes] = []
        for start in range(0, len(samples), FRAME_SAMPLES):
            block = np.ascontiguousarray(samples[None, start : start + FRAME_SAMPLES])
            frame = av.AudioFrame.from_ndarray(block, format="fltp", layout="mono")
            frame.sample_rate = self._sample_rate_hz
            encoded += map(bytes, self._encoder.encode(frame))
        if end:
            encoded += map(bytes, self._encoder.encode(None))
        return [packet for each in encoded for packet in self._packet(each)]

    def _packet(self, encoded: bytes) -> list[Packet]:
        self._unsent += adts_header(len(encoded), self._sample_rate_hz) + encoded
        self._frames_out += 1
        decodable = min(self._frames_out * FRAME_SAMPLES - DELAY_SAMPLES, self._samples_in)
        samples = decodable - self._counted_samples
        if samples <= 0:
            return []
        self._counted_samples = decodable
        data, self._unsent = self._unsent, b""
        return [Packet(data, samples)]


def adts_header(size_bytes: int, sample_rate_hz: int) -> bytes:
    """The 7 bytes before a frame of AAC-LC, mono, without a checksum."""
    length = size_bytes + 7
    rate = _FIRST_RATE_INDEX + RATES_HZ.index(sample_rate_hz)
    bits = (0xFFF << 44) | (1 << 40)  # sync word; MPEG-4, layer 0, no checksum
    bits |= (1 << 38) | (rate << 34) | (1 << 30)  # LC, sample rate, one channel
    bits |= (length << 13) | (0x7FF << 2)  # length, variable bit rate; one frame
    return bits.to_bytes(7, "big")
