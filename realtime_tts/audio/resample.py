"""Streaming resampler: exact length, and no discontinuity between chunks."""

import numpy as np
import soxr

from realtime_tts.audio.pcm import Float32, playable


class StreamingResampler:
    """From `in_hz` to `out_hz`.  Any chunking gives the same round(n · out / in) samples.

    Samples are made `playable` first: the filter would spread one NaN over 30 to 120 ms.  soxr holds back 20 to 33 ms
    until `flush`.
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
        # soxr counts in floating point, and returns one too few at some exact halves: 20,000 samples from 8,000 to
        # 47,999 Hz.
        return np.pad(rest[:due], (0, max(0, due - len(rest))))

    def _total(self) -> int:
        """round(n · out / in), halves up, in integers."""
        return (2 * self._samples_in * self._out_hz + self._in_hz) // (2 * self._in_hz)
