"""Images as patches for the vision tower."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realtime_tts.engine.models.qwen3_omni.config import PreprocessorConfig

PATCH, MERGE = 16, 2
"""Pixels of a patch's side, and patches of the side of a token."""
UNIT = PATCH * MERGE
MAX_ASPECT = 200


@dataclass(frozen=True, slots=True)
class Grid:
    """The tokens of an image in rows and columns."""

    rows: int
    columns: int

    @property
    def tokens(self) -> int:
        return self.rows * self.columns


def fit(height: int, width: int, config: PreprocessorConfig) -> Grid:
    """The tokens of an image of this size, which is scaled to whole tokens with its number of pixels in bounds.

    Raises ValueError for an image that is empty or too narrow.
    """
    if min(height, width) < 1 or max(height, width) > MAX_ASPECT * min(height, width):
        raise ValueError(f"an image of {width} × {height} pixels is empty, or narrower than 1:{MAX_ASPECT}")
    rows, columns = round(height / UNIT), round(width / UNIT)
    pixels = rows * columns * UNIT**2
    if pixels > config.max_pixels:
        scale = math.sqrt(height * width / config.max_pixels)
        rows, columns = (max(1, math.floor(side / scale / UNIT)) for side in (height, width))
    elif pixels < config.min_pixels:
        scale = math.sqrt(config.min_pixels / (height * width))
        rows, columns = (math.ceil(side * scale / UNIT) for side in (height, width))
    return Grid(rows, columns)


def patches(pixels: npt.NDArray[np.uint8], grid: Grid) -> npt.NDArray[np.float32]:
    """(h, w, 3) to (4 · tokens, 3 · 2 · 16 · 16), the four patches of a token one after the other.

    A patch has two frames, which are equal for an image.
    """
    from PIL import Image

    size = (grid.columns * UNIT, grid.rows * UNIT)
    if (pixels.shape[1], pixels.shape[0]) != size:
        pixels = np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC))
    scaled: npt.NDArray[np.float32] = (pixels.astype(np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
    blocks = scaled.reshape(grid.rows, MERGE, PATCH, grid.columns, MERGE, PATCH, 3).transpose(0, 3, 1, 4, 6, 2, 5)
    return np.repeat(blocks[:, :, :, :, :, None], 2, 5).reshape(4 * grid.tokens, -1)
