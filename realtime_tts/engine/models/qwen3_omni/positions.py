"""Positions of a prompt on the axes of time, height and width: images make them differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realtime_tts.engine.models.qwen3_omni.image import Grid

Positions = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Piece:
    """Token ids in order; those of an image are one piece, with its grid."""

    ids: tuple[int, ...]
    grid: Grid | None = None


def ids_of(pieces: Sequence[Piece]) -> tuple[int, ...]:
    return tuple(token for piece in pieces for token in piece.ids)


def positions_of(pieces: Sequence[Piece]) -> Positions | None:
    """(3, t); None without an image, where all axes are 0, 1, 2, …

    Text and audio advance all axes by one for each token.  The tokens of an image share their time, and have their row
    and column; the next token is after the largest of all.
    """
    if all(piece.grid is None for piece in pieces):
        return None
    parts: list[Positions] = []
    start = 0
    for piece in pieces:
        part = np.arange(len(piece.ids))[None].repeat(3, 0) if piece.grid is None else _of_image(piece.grid)
        parts.append((part + start).astype(np.int32))
        start += int(part.max(initial=-1)) + 1
    return np.concatenate(parts, 1)


def _of_image(grid: Grid) -> npt.NDArray[np.int64]:
    rows, columns = np.indices((grid.rows, grid.columns)).reshape(2, -1)
    return np.stack([np.zeros_like(rows), rows, columns])
