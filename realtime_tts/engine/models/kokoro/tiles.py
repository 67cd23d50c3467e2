"""Fewer multiplications for a convolution over time: tiles whose polynomials are multiplied point by point.

A convolution of `taps` over a tile of `size` samples gives `size - taps + 1` new ones.  Taps and outputs are
polynomials, and their product, of `size` coefficients, is known from its values at `size` points (Toom and Cook): here
the `size - 2` roots of unity, a short Fourier transform, with nought and infinity, which cost next to nothing.  Complex
values are two in three real products (Karatsuba).  So with 11 taps and tiles of 34, 24 outputs cost 49 products of
matrices of channels where the plain sum has 264.  Real arithmetic throughout: the whole is
`outputs @ ((weights @ taps) * (inputs @ samples))`, exact but for rounding.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


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
    assert size > max(taps, 2), "a tile gives at least two outputs, and has a root of unity"
    new, roots = size - taps + 1, size - 2
    # Rows that evaluate the one factor and the other, and the columns of the product's coefficients that they make.
    first = [_unit(0, taps), _unit(taps - 1, taps)]
    second = [_unit(0, new), _unit(new - 1, new)]
    # Of the cyclic product, of `roots` coefficients, the first two have the product's last two added to them.
    made = [_unit(0, size) - _unit(roots, size), _unit(size - 1, size) - _unit(1, size)]
    n = np.arange(size)
    for frequency in range(roots // 2 + 1):
        cos, sin = np.cos(2 * np.pi * frequency * n / roots), np.sin(2 * np.pi * frequency * n / roots)
        if frequency in (0, roots // 2):
            first, second = [*first, cos[:taps]], [*second, cos[:new]]
            made.append(_cyclic(cos / roots, roots))
            continue
        # A value is cos - i sin.  Of each pair the real part is first - third, the imaginary first + second.
        first += [(cos - sin)[:taps], cos[:taps], -sin[:taps]]
        second += [cos[:new], -(sin + cos)[:new], (cos - sin)[:new]]
        made += [_cyclic(part * 2 / roots, roots) for part in (cos - sin, -sin, -cos)]
    # A correlation, as networks call a convolution, is the transpose of the product by its second factor.
    return Tile(np.array(made), np.array(first), np.array(second).T)


def _unit(index: int, length: int) -> Matrix:
    unit: Matrix = np.eye(1, length, index)[0]
    return unit


def _cyclic(column: Matrix, roots: int) -> Matrix:
    """The first two coefficients come from nought and infinity, so what is cyclic gives the last two."""
    coefficients: Matrix = column.copy()
    coefficients[[0, roots + 1]] = 0.0
    return coefficients
