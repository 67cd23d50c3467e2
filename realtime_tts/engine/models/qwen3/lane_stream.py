"""CUDA stream of a lane."""

from contextlib import AbstractContextManager, nullcontext

import torch


class LaneStream:
    """The CUDA stream of a lane, entered for everything that a stage does there; on a CPU it does nothing."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def __call__(self) -> AbstractContextManager[object]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)
