"""CUDA graphs of a function by bucket, captured once and replayed; an uncaptured bucket calls the function.

A captured graph reads and writes fixed memory: inputs are copied in, and the next replay overwrites the outputs.  So
the caller pads its inputs to a bucket, and uses the outputs before it calls again.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import torch

Key = TypeVar("Key", bound=Hashable)
Function = Callable[..., "tuple[torch.Tensor, ...]"]

WARM_UP_RUNS = 3
"""Runs before a capture: at their first calls libraries choose kernels and allocate, which a capture forbids."""


@dataclass(frozen=True, slots=True)
class _Captured:
    graph: "torch.cuda.CUDAGraph"
    inputs: "tuple[torch.Tensor, ...]"
    outputs: "tuple[torch.Tensor, ...]"


class GraphCache(Generic[Key]):
    """Graphs of `function(bucket, *inputs)`, with a bucket such as (frames, rows).  Owned by one thread.

    All share a memory pool, so only the outputs of the last replay are valid.  The function must depend only on its
    bucket and on shapes, and must not wait for the device.  A capture runs it several times, so its inputs must change
    no state in use.  The other
    threads of the process may use the device meanwhile.
    """

    def __init__(self, function: Function, device: "torch.device") -> None:
        self._function = function
        self._device = device
        self._captured: dict[Key, _Captured] = {}
        self._shapes: dict[Key, tuple[tuple[tuple[int, ...], torch.dtype], ...]] = {}

    def capture(self, key: Key, *inputs: "torch.Tensor") -> None:
        """Captures a bucket with inputs of its shapes, and discards the outputs."""
        self._shapes[key] = _shapes(inputs)
        if self._device.type == "cuda":
            self._captured[key] = self._capture(key, inputs)

    def __call__(self, key: Key, *inputs: "torch.Tensor") -> "tuple[torch.Tensor, ...]":
        """The function's outputs, valid until the next call.  Raises ValueError for other shapes than captured."""
        if key in self._shapes and _shapes(inputs) != self._shapes[key]:
            raise ValueError(f"bucket {key} has the shapes {self._shapes[key]}, not {_shapes(inputs)}")
        if key not in self._captured:
            return self._function(key, *inputs)
        captured = self._captured[key]
        for static, given in zip(captured.inputs, inputs, strict=True):
            static.copy_(given, non_blocking=True)
        captured.graph.replay()
        return captured.outputs

    def _capture(self, key: Key, inputs: "Sequence[torch.Tensor]") -> _Captured:
        import torch

        static = tuple(tensor.to(self._device, copy=True) for tensor in inputs)
        # The warm-up before a capture must run on a stream of its own.
        side = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_RUNS):
                self._function(key, *static)
        torch.cuda.current_stream(self._device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        first = next(iter(self._captured.values()), None)
        # Thread-local: a Thinker that is made again captures while the lanes of the speech engine run.
        pool = None if first is None else first.graph.pool()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            outputs = self._function(key, *static)
        return _Captured(graph, static, outputs)


def _shapes(inputs: "Sequence[torch.Tensor]") -> "tuple[tuple[tuple[int, ...], torch.dtype], ...]":
    return tuple((tuple(tensor.shape), tensor.dtype) for tensor in inputs)


class HostCopy:
    """An asynchronous copy of a tensor to the host: `wait` returns it, and the device continues meanwhile."""

    def __init__(self, tensor: "torch.Tensor") -> None:
        import torch

        self._event: torch.cuda.Event | None = None
        if tensor.device.type != "cuda":
            self._host = tensor.detach().clone()
            return
        # The copy is asynchronous only into pinned memory.
        self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self._host.copy_(tensor, non_blocking=True)
        self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._event.record(torch.cuda.current_stream(tensor.device))

    def wait(self) -> "torch.Tensor":
        """The values at the time of construction, on the host; never overwritten."""
        if self._event is not None:
            self._event.synchronize()
        return self._host
