"""Products of a few rows with a large matrix, which is what a frame is made of: it lies as its device likes it."""

from typing import Self

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

GEMV_ROWS = 2
"""Up to so many rows, a transposed matrix is the quickest on a CPU."""


class Matrix:
    """A weight (out, in): (..., in) to (..., out).

    A CPU reads the same weights again for every frame, and BLAS lays them out anew each time.  So they are laid out
    once, for oneDNN: 67 MB of them with 4 rows in 8.5 ms and not 19 (one core, fp32, AVX2).  For one row or two, a
    transposed matrix is better still (5.6 ms against 8.6, and 9.3 as it was): `often` keeps that too, for weights that
    are read so often that it is worth twice the memory.
    """

    def __init__(self, weight: torch.Tensor, *, often: bool = False) -> None:
        self._plain: torch.Tensor | None = weight
        self._packed = _packed(weight)
        self._transposed: torch.Tensor | None = None
        if self._packed is not None:
            self._plain = None
            self._transposed = weight.t().contiguous() if often else None

    @classmethod
    def rows(cls, *weights: torch.Tensor, often: bool = False) -> Self:
        """Several in one, their outputs side by side."""
        return cls(torch.cat(weights), often=often)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self._plain is not None:
            return F.linear(x, self._plain)
        if self._transposed is not None and x.shape[:-1].numel() <= GEMV_ROWS:
            return x @ self._transposed
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, None, "none", [], "")
        return product


def _packed(weight: torch.Tensor) -> torch.Tensor | None:
    """Laid out for oneDNN; None where the device or the type has no use for that."""
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
    return packed
