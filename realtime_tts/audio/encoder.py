"""Encoders: a model's samples to the packets on the wire."""

from collections.abc import Callable
from typing import Protocol

from realtime_tts.audio.aac import AacCodec
from realtime_tts.audio.container import FileCodec, StreamCodec
from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.audio.g711 import alaw_bytes, mulaw_bytes
from realtime_tts.audio.ogg import ogg_opus
from realtime_tts.audio.opus import OpusCodec
from realtime_tts.audio.packet import Encoder, Packet
from realtime_tts.audio.pcm import Float32, pcm_bytes
from realtime_tts.audio.resample import StreamingResampler
from realtime_tts.audio.time_stretch import StreamingStretcher
from realtime_tts.audio.wav import wav_header

__all__ = ["Encoder", "Packet", "make_encoder"]


class Codec(Protocol):
    """One format, one sentence, at the wire's rate.  Any floats are valid: each codec makes them `playable`."""

    pre_skip_samples: int

    def push(self, samples: Float32) -> list[Packet]:
        """The next samples (n,), n > 0."""
        ...

    def finish(self) -> list[Packet]:
        """The rest; frees all native state.  Nothing may follow."""
        ...


class RawCodec:
    """Formats in which every sample has its own bytes: PCM, G.711, and wav after a header of unknown length.

    It is also a complete `Encoder`: without one around it, a packet needs half the time.
    """

    __slots__ = ("_header", "_to_bytes")

    pre_skip_samples = 0

    def __init__(self, to_bytes: Callable[[Float32], bytes], header: bytes = b"") -> None:
        self._to_bytes = to_bytes
        self._header = header

    def encode(self, samples: Float32) -> list[Packet]:
        if not len(samples):
            return []
        data = self._to_bytes(samples)
        if self._header:
            data, self._header = self._header + data, b""
        return [Packet(data, len(samples))]

    def flush(self) -> list[Packet]:
        return []

    push, finish = encode, flush


class WholeCodec:
    """Collects the packets of `codec`, and makes one file of them at the end."""

    pre_skip_samples = 0
    """The file states its own pre-skip."""

    def __init__(self, codec: Codec, to_file: Callable[[list[bytes], int], bytes]) -> None:
        self._codec = codec
        self._to_file = to_file
        self._packets: list[Packet] = []

    def push(self, samples: Float32) -> list[Packet]:
        self._packets += self._codec.push(samples)
        return []

    def finish(self) -> list[Packet]:
        packets = self._packets + self._codec.finish()
        self._packets = []
        samples = sum(packet.samples for packet in packets)
        return [Packet(self._to_file([packet.data for packet in packets], samples), samples)]


class ChainEncoder:
    """Stretcher, if any, then resampler, if any, then codec."""

    __slots__ = ("_codec", "_resampler", "_started", "_stretcher", "pre_skip_samples")

    def __init__(
        self, stretcher: StreamingStretcher | None, resampler: StreamingResampler | None, codec: Codec
    ) -> None:
        self._stretcher = stretcher
        self._resampler = resampler
        self._codec = codec
        self._started = False
        self.pre_skip_samples = codec.pre_skip_samples

    def encode(self, samples: Float32) -> list[Packet]:
        if self._stretcher is not None:
            samples = self._stretcher.push(samples)
        if self._resampler is not None:
            samples = self._resampler.push(samples)
        return self._push(samples)

    def flush(self) -> list[Packet]:
        packets = [] if self._stretcher is None else self._push(self._resampled(self._stretcher.flush()))
        if self._resampler is not None:
            packets += self._push(self._resampler.flush())
        return packets + self._codec.finish() if self._started else packets

    def _resampled(self, samples: Float32) -> Float32:
        return samples if self._resampler is None else self._resampler.push(samples)

    def _push(self, samples: Float32) -> list[Packet]:
        if not len(samples):
            return []
        self._started = True
        return self._codec.push(samples)


def make_encoder(audio_format: AudioFormat, model_rate_hz: int, *, streaming: bool, tempo: float = 1.0) -> Encoder:
    """For one sentence: packets during its synthesis, or (not `streaming`) one complete file in one packet at `flush`.

    n samples become, for any chunking, exactly floor(m · wire rate / model rate + 1/2) with m = floor(n / tempo + 1/2);
    that is the sum of the packets' `samples`, in which an Opus stream's pre-skip and padding do not count.  Without
    samples there are no bytes, not even a header.

    NaN becomes silence, and louder samples are clipped, before any state can spread them.

    `tempo` 2 speaks twice as fast at the same pitch; raises `ValueError` outside 0.25 to 4.
    """
    stretcher = None if tempo == 1.0 else StreamingStretcher(model_rate_hz, tempo)
    codec = _stream_codec(audio_format) if streaming else _file_codec(audio_format)
    rate_hz = audio_format.sample_rate_hz
    resampler = None if rate_hz == model_rate_hz else StreamingResampler(model_rate_hz, rate_hz)
    if stretcher is None and resampler is None and isinstance(codec, RawCodec):
        return codec
    return ChainEncoder(stretcher, resampler, codec)


def _stream_codec(audio_format: AudioFormat) -> Codec:
    match audio_format.encoding:
        case Encoding.PCM:
            return RawCodec(pcm_bytes)
        case Encoding.WAV:
            return RawCodec(pcm_bytes, wav_header(audio_format, None))
        case Encoding.PCM_MULAW:
            return RawCodec(mulaw_bytes)
        case Encoding.PCM_ALAW:
            return RawCodec(alaw_bytes)
        case Encoding.OPUS:
            return OpusCodec(audio_format.sample_rate_hz)
        case Encoding.FLAC | Encoding.MP3:
            return StreamCodec(audio_format.encoding, audio_format.sample_rate_hz)
        case Encoding.AAC:
            return AacCodec(audio_format.sample_rate_hz)


def _file_codec(audio_format: AudioFormat) -> Codec:
    rate_hz = audio_format.sample_rate_hz
    match audio_format.encoding:
        case Encoding.WAV:

            def wav(pieces: list[bytes], samples: int) -> bytes:
                return b"".join([wav_header(audio_format, samples * audio_format.bytes_per_sample), *pieces])

            return WholeCodec(RawCodec(pcm_bytes), wav)
        case Encoding.OPUS:
            opus = OpusCodec(rate_hz)

            def ogg(packets: list[bytes], samples: int) -> bytes:
                return ogg_opus(
                    packets, sample_rate_hz=rate_hz, pre_skip_samples=opus.pre_skip_samples, samples=samples
                )

            return WholeCodec(opus, ogg)
        case Encoding.FLAC | Encoding.MP3:
            return FileCodec(audio_format.encoding, rate_hz)
        case _:
            return WholeCodec(_stream_codec(audio_format), lambda pieces, _samples: b"".join(pieces))
