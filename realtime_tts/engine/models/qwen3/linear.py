"""Linear layers without a bias, for a few rows: the weight is stored in the layout that is fastest on its device."""

from typing import Self

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

MIN_PACKED_VALUES = 1 << 18
"""Smaller weights are not packed.  A call of oneDNN costs 25 us more: 64 × 256 values with 4 rows take 31 us packed and
9 plain, 1024 × 1024 take 243 and 376 (one core, fp32)."""
GEMV_ROWS = 2
"""Up to this number of rows a transposed weight is the fastest on a CPU."""


class PackedLinear:
    """Maps (..., in) to (..., out) by a weight (out, in).

    A CPU reads the same weights for every frame, and BLAS repacks them each time.  So they are packed once, for oneDNN:
    67 MB with 4 rows take 8.5 ms instead of 19 (one core, fp32, AVX2).  For one or two rows a transposed copy is faster
    still (5.6 ms; packed 8.6, plain 9.3).  `keep_transposed` keeps it too, for weights that are read often enough to be
    worth twice the memory.
    """

    def __init__(self, weight: torch.Tensor, *, keep_transposed: bool = False) -> None:
        self._plain: torch.Tensor | None = weight
        self._packed = _packed(weight)
        self._transposed: torch.Tensor | None = None
        if self._packed is not None:
            self._plain = None
            self._transposed = weight.t().contiguous() if keep_transposed else None

    @classmethod
    def concat(cls, *weights: torch.Tensor, keep_transposed: bool = False) -> Self:
        """Several weights in one layer, their outputs concatenated."""
        return cls(torch.cat(weights), keep_transposed=keep_transposed)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self._plain is not None:
            return F.linear(x, self._plain)
        if self._transposed is not None and x.shape[:-1].numel() <= GEMV_ROWS:
            return x @ self._transposed
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, None, "none", [], "")
        return product


def _packed(weight: torch.Tensor) -> torch.Tensor | None:
    """The weight packed for oneDNN; None for a size, device or type that does not gain by it."""
    if weight.numel() < MIN_PACKED_VALUES:
        return None
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
    return packed
