"""Float samples to 16-bit PCM and back."""

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Int16 = npt.NDArray[np.int16]

FULL_SCALE = 32767
"""+1.0 and -1.0 become +-32767, so that the scale is the same both ways and silence has no offset."""


_SCALE = np.array(FULL_SCALE, np.float32)
"""As an array: numpy needs longer to convert a number than to multiply 80 ms of audio."""


_INT16 = np.dtype("<i2")


def playable(samples: Float32) -> Float32:
    """Any floats (n,) as samples in [-1, 1]: NaN becomes silence; louder samples and infinities are clipped.

    Returns `samples` itself where nothing changes, so the result must not be written to.
    """
    return samples if _is_playable(samples) else _clipped(samples)


def _clipped(samples: Float32) -> Float32:
    if np.isnan(samples.max(initial=0.0)):  # the maximum of anything and NaN is NaN
        samples = np.where(np.isnan(samples), np.float32(0.0), samples)
    clipped: Float32 = np.maximum(samples, np.float32(-1.0))
    return np.minimum(clipped, np.float32(1.0), out=clipped)


def _is_playable(samples: Float32) -> bool:
    # `argmax` needs a third of the time of `max`.  It returns the index of a NaN, with which no comparison is true.
    return samples.size == 0 or bool(samples.item(samples.argmax()) <= 1.0 and samples.item(samples.argmin()) >= -1.0)


def pcm_int16(samples: Float32) -> Int16:
    """Float samples (n,) to signed 16-bit little-endian (n,), rounded to nearest, made `playable` first."""
    if not _is_playable(samples):
        samples = _clipped(samples)
    scaled = samples * _SCALE  # a copy, so the rest can be done in place
    rounded: Int16 = np.rint(scaled, scaled).astype(_INT16)
    return rounded


def pcm_bytes(samples: Float32) -> bytes:
    return pcm_int16(samples).tobytes()


def pcm_samples(data: bytes) -> Float32:
    """Signed 16-bit little-endian to float samples (n,) in [-1, 1]."""
    return np.clip(np.frombuffer(data, "<i2").astype(np.float32) / FULL_SCALE, -1.0, 1.0)
