"""Fewer multiplications for a convolution over time: the short Fourier transform of tiles, as plain matrices.

A convolution of `taps` over a tile of `size` samples gives `size - taps + 1` new ones.  Between two transforms it is a
product for each frequency, and a complex product is three real ones (Karatsuba).  So with 11 taps and tiles of 32, 22
outputs cost 47 products of matrices of channels where the plain sum has 242.  Real arithmetic throughout: the whole is
`outputs @ ((weights @ taps) * (inputs @ samples))`, exact but for rounding.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.floating]


class Tile(NamedTuple):
    """The three matrices of a tile.  One row of `inputs` and `weights`, and one column of `outputs`, is one product."""

    inputs: Matrix
    """(products, size)"""
    weights: Matrix
    """(products, taps)"""
    outputs: Matrix
    """(size - taps + 1, products)"""


def make_tile(size: int, taps: int) -> Tile:
    """`size` samples, even, and more than `taps`."""
    assert size % 2 == 0, "the highest frequency is real"
    assert size > taps, "a tile gives at least two outputs"
    n = np.arange(size)
    new = size - taps + 1
    inputs: list[Matrix] = []
    weights: list[Matrix] = []
    outputs: list[Matrix] = []
    for frequency in range(size // 2 + 1):
        cos, sin = np.cos(2 * np.pi * frequency * n / size), np.sin(2 * np.pi * frequency * n / size)
        if frequency in (0, size // 2):
            inputs, weights, outputs = [*inputs, cos], [*weights, cos], [*outputs, cos / size]
            continue
        # The samples' transform is (cos - i sin) x.  The taps' is conjugated, (cos + i sin) w: a correlation, as
        # networks call a convolution.  Of each product the real part is first - third, the imaginary first + second.
        inputs += [cos - sin, cos, -sin]
        weights += [cos, sin - cos, cos + sin]
        outputs += [2 * (cos - sin) / size, -2 * sin / size, -2 * cos / size]
    return Tile(
        np.array(inputs, dtype=np.float32),
        np.array(weights, dtype=np.float32)[:, :taps],
        np.ascontiguousarray(np.array(outputs, dtype=np.float32)[:, :new].T),
    )
