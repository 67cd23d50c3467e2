"""Toom-Cook convolution over time: fewer multiplications than the direct sum, one segment of samples at a time.

A convolution of `taps` over a segment of `size` samples gives `size - taps + 1` outputs.  Taps and outputs are
polynomials, and their product, of `size` coefficients, is determined by its values at `size` points (Toom-Cook; for
small sizes this is Winograd's minimal filtering).  The points here are the `size - 2` roots of unity, which is a short
Fourier transform, with zero and infinity, which cost almost nothing.  A complex multiplication takes three real ones
(Karatsuba), and values come in conjugate pairs.  So with 11 taps and segments of 34 samples, 24 outputs cost 49
multiplications of channel arrays where the direct sum needs 264.  Real arithmetic throughout:
`outputs @ ((weights @ taps) * (inputs @ samples))`, exact but for rounding.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array64 = npt.NDArray[np.float64]


class ToomCook(NamedTuple):
    """The three transforms.  Each row of `inputs` and `weights`, and each column of `outputs`, is a multiplication."""

    inputs: Array64
    """(multiplications, size)"""
    weights: Array64
    """(multiplications, taps)"""
    outputs: Array64
    """(size - taps + 1, multiplications)"""


def toom_cook(size: int, taps: int) -> ToomCook:
    """The transforms for segments of `size` samples, which is even and more than `taps`."""
    assert size % 2 == 0, "the highest frequency is real"
    assert size > max(taps, 2), "a segment gives at least two outputs, and has a root of unity"
    new, roots = size - taps + 1, size - 2
    # Rows that evaluate the two factors, and the columns of the product's coefficients that each value gives.
    first = [_unit(0, taps), _unit(taps - 1, taps)]
    second = [_unit(0, new), _unit(new - 1, new)]
    # In the cyclic product, of `roots` coefficients, the product's last two are added to the first two.
    columns = [_unit(0, size) - _unit(roots, size), _unit(size - 1, size) - _unit(1, size)]
    n = np.arange(size)
    for frequency in range(roots // 2 + 1):
        cos, sin = np.cos(2 * np.pi * frequency * n / roots), np.sin(2 * np.pi * frequency * n / roots)
        if frequency in (0, roots // 2):
            first, second = [*first, cos[:taps]], [*second, cos[:new]]
            columns.append(_cyclic(cos / roots, roots))
            continue
        # A value is cos - i sin.  Of each pair the real part is first - third, the imaginary first + second.
        first += [(cos - sin)[:taps], cos[:taps], -sin[:taps]]
        second += [cos[:new], -(sin + cos)[:new], (cos - sin)[:new]]
        columns += [_cyclic(part * 2 / roots, roots) for part in (cos - sin, -sin, -cos)]
    # A correlation, which networks call a convolution, is the transpose of the product by its second factor.
    return ToomCook(np.array(columns), np.array(first), np.array(second).T)


def _unit(index: int, length: int) -> Array64:
    unit: Array64 = np.eye(1, length, index)[0]
    return unit


def _cyclic(column: Array64, roots: int) -> Array64:
    """The first two coefficients come from zero and infinity, so the cyclic values give only the last two."""
    coefficients: Array64 = column.copy()
    coefficients[[0, roots + 1]] = 0.0
    return coefficients
