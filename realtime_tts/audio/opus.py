"""Opus as raw packets of 20 ms (RFC 6716), one encoder state over the whole sentence."""

import numpy as np
import opuslib_next

from realtime_tts.audio.packet import Packet
from realtime_tts.audio.pcm import Float32, playable

PACKETS_PER_S = 50
BITRATES = {8_000: 24_000, 12_000: 28_000, 16_000: 32_000, 24_000: 40_000, 48_000: 48_000}
"""Bits a second by sample rate: a little above what RFC 7587, 3.1.1, gives for speech of that bandwidth."""
COMPLEXITY = 5
"""35 to 50 µs a packet on a 2-core machine; the default is 10, at 167."""


class OpusCodec:
    """A decoder returns `pre_skip_samples`, then every sample that was pushed, then padding.

    Each packet's `samples` count neither: their sum is the number of samples that were pushed.
    """

    def __init__(self, sample_rate_hz: int) -> None:
        # "audio" keeps the waveform, where "voip" filters a microphone's hum out of it.  No hint that this is voice:
        # libopus would choose its speech coder, which needs three times the time, and is 4 dB less exact at 24 kHz and
        # 32 kbit/s.
        encoder = opuslib_next.Encoder(sample_rate_hz, 1, opuslib_next.APPLICATION_AUDIO)
        encoder.bitrate = BITRATES[sample_rate_hz]
        encoder.complexity = COMPLEXITY
        self.pre_skip_samples = int(encoder.lookahead)
        self._encoder: opuslib_next.Encoder | None = encoder
        self._packet_samples = sample_rate_hz // PACKETS_PER_S
        self._waiting = np.zeros(0, np.float32)
        self._samples_in = 0
        self._decoded_samples = 0
        """Samples that a decoder returns for the packets so far."""

    def push(self, samples: Float32) -> list[Packet]:
        self._samples_in += len(samples)
        # Cleaned first: libopus carries state from packet to packet.
        self._waiting = np.concatenate((self._waiting, playable(samples)))
        return self._packets()

    def finish(self) -> list[Packet]:
        due = self._samples_in + self.pre_skip_samples - self._decoded_samples
        padded = -(-due // self._packet_samples) * self._packet_samples
        self._waiting = np.pad(self._waiting, (0, padded - len(self._waiting)))
        packets = self._packets()
        self._encoder = None  # frees the state of libopus
        return packets

    def _packets(self) -> list[Packet]:
        size = self._packet_samples
        whole = len(self._waiting) // size * size
        packets = [self._packet(self._waiting[start : start + size]) for start in range(0, whole, size)]
        self._waiting = self._waiting[whole:]
        return packets

    def _packet(self, samples: Float32) -> Packet:
        assert self._encoder is not None, "nothing may follow finish"
        before = self._sound()
        data: bytes = self._encoder.encode_float(samples.tobytes(), len(samples))
        self._decoded_samples += len(samples)
        return Packet(data, self._sound() - before)

    def _sound(self) -> int:
        return min(max(self._decoded_samples - self.pre_skip_samples, 0), self._samples_in)
