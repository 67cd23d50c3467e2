"""Another sample rate, chunk by chunk: exact length, no joints."""

import numpy as np
import soxr

from realtime_tts.audio.pcm import Float32, playable


class StreamingResampler:
    """From `in_hz` to `out_hz`; any chunking gives the same samples, in all round(n · out / in) of them.

    Samples must be finite: the filter spreads one NaN over 30 to 120 ms.  soxr holds back 20 to 33 ms until `flush`.
    """

    def __init__(self, in_hz: int, out_hz: int) -> None:
        self._in_hz = in_hz
        self._out_hz = out_hz
        self._stream = soxr.ResampleStream(in_hz, out_hz, 1, dtype="float32") if in_hz != out_hz else None
        self._samples_in = 0
        self._samples_out = 0

    def push(self, samples: Float32) -> Float32:
        self._samples_in += len(samples)
        if self._stream is None or not len(samples):
            return samples
        # Cleaned first: the filter would spread one NaN over 60 to 120 ms.
        resampled: Float32 = self._stream.resample_chunk(np.ascontiguousarray(playable(samples)))
        self._samples_out += len(resampled)
        return resampled

    def flush(self) -> Float32:
        """The rest; nothing may follow."""
        if self._stream is None or not self._samples_in:
            return np.zeros(0, np.float32)
        rest: Float32 = self._stream.resample_chunk(np.zeros(0, np.float32), last=True)
        due = self._total() - self._samples_out
        assert due >= 0, f"soxr is {-due} samples ahead of its input"
        # soxr counts in floating point, and is one short at some exact halves (20,000 samples from 8,000 to 47,999 Hz).
        return np.pad(rest[:due], (0, max(0, due - len(rest))))

    def _total(self) -> int:
        """round(n · out / in), halves up, in whole numbers."""
        return (2 * self._samples_in * self._out_hz + self._in_hz) // (2 * self._in_hz)
