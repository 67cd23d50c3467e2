"""Leading silence of a request, which is not played."""

import numpy as np
import numpy.typing as npt

SILENT_PEAK = 0.001
"""-60 dBFS: digital silence with its dither, and well below the noise of any recording."""


def silent_samples(samples: npt.NDArray[np.generic], frame_samples: int, most_frames: int) -> int:
    """Samples of the whole silent frames at the beginning, `most_frames` at the most; the last frame is never one.

    `samples` (n,) are the first of a request, in [-1, 1].
    """
    count = 0
    while count < most_frames and (count + 1) * frame_samples < len(samples):
        frame = samples[count * frame_samples : (count + 1) * frame_samples]
        if not np.max(np.abs(frame)) < SILENT_PEAK:
            break
        count += 1
    return count * frame_samples
