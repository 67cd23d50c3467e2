"""From a model's samples to the wire's bytes, with whatever state that takes."""

from typing import Protocol

import numpy as np

from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.audio.pcm import Float32, pcm_bytes
from realtime_tts.audio.resample import StreamingResampler
from realtime_tts.audio.wav import wav_header


class Encoder(Protocol):
    """One sentence's audio.  Chunks go in, bytes come out; what is held back comes with `flush`."""

    @property
    def samples_out(self) -> int:
        """Samples in the bytes so far, at the wire's rate."""
        ...

    def encode(self, samples: Float32) -> bytes:
        """The next samples (n,) at the model's rate; n may be 0, and so may the bytes."""
        ...

    def flush(self) -> bytes:
        """The rest; nothing may follow."""
        ...


class StreamEncoder:
    """PCM, or wav with a header of unknown length before the first sample."""

    def __init__(self, audio_format: AudioFormat, model_rate_hz: int) -> None:
        self._resampler = StreamingResampler(model_rate_hz, audio_format.sample_rate_hz)
        self._header = wav_header(audio_format, None) if audio_format.encoding is Encoding.WAV else b""
        self.samples_out = 0

    def encode(self, samples: Float32) -> bytes:
        return self._packet(self._resampler.push(samples))

    def flush(self) -> bytes:
        return self._packet(self._resampler.flush())

    def _packet(self, samples: Float32) -> bytes:
        if not len(samples):
            return b""
        self.samples_out += len(samples)
        header, self._header = self._header, b""
        return header + pcm_bytes(samples)


class WholeEncoder:
    """Nothing until the end, then one complete file."""

    def __init__(self, audio_format: AudioFormat, model_rate_hz: int) -> None:
        self._format = audio_format
        self._resampler = StreamingResampler(model_rate_hz, audio_format.sample_rate_hz)
        self._samples: list[Float32] = []
        self.samples_out = 0

    def encode(self, samples: Float32) -> bytes:
        self._samples.append(self._resampler.push(samples))
        return b""

    def flush(self) -> bytes:
        samples = np.concatenate([*self._samples, self._resampler.flush()])
        self._samples.clear()
        if not len(samples):
            return b""
        self.samples_out = len(samples)
        data = pcm_bytes(samples)
        return wav_header(self._format, len(data)) + data if self._format.encoding is Encoding.WAV else data


def make_encoder(audio_format: AudioFormat, model_rate_hz: int, *, streaming: bool) -> Encoder:
    """For one sentence: bytes as they come, or (not `streaming`) all at `flush`.

    No samples are no bytes, not even a header.  NaN is made silent, and what is too loud is clipped, before
    the resampler can spread it.
    """
    encoder = StreamEncoder if streaming else WholeEncoder
    return encoder(audio_format, model_rate_hz)
