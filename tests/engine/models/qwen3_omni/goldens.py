"""The recorded values of the reference (bench/qwen3_omni_goldens.py makes them)."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@functools.cache
def goldens() -> dict[str, Array]:
    with np.load(Path(__file__).parent / "goldens" / "omni.npz") as stored:
        return dict(stored)


def golden(name: str) -> Array:
    return goldens()[name]


def error(found: Any, name: str) -> float:
    """The largest difference to a golden of the same shape."""
    expected = golden(name)
    values = np.asarray(found)
    assert values.shape == expected.shape, f"{name} has shape {expected.shape}, not {values.shape}"
    return float(np.abs(values.astype(np.float64) - expected).max())
