"""Float samples to 16-bit PCM and back."""

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]

FULL_SCALE = 32767
"""+1.0 and -1.0 become +-32767, so that the scale is the same both ways and silence has no offset."""


def pcm_bytes(samples: Float32) -> bytes:
    """Float samples (n,) in [-1, 1] to signed 16-bit little-endian; louder ones are clipped, NaN becomes silence."""
    clean = np.nan_to_num(np.asarray(samples, np.float32), nan=0.0, posinf=1.0, neginf=-1.0)
    return np.rint(np.clip(clean, -1.0, 1.0) * FULL_SCALE).astype("<i2").tobytes()


def pcm_samples(data: bytes) -> Float32:
    """Signed 16-bit little-endian to float samples (n,) in [-1, 1]."""
    return np.clip(np.frombuffer(data, "<i2").astype(np.float32) / FULL_SCALE, -1.0, 1.0)
