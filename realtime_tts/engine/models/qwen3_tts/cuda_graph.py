"""Captures a function's GPU work once for each bucket, and replays it; what was not captured is just called.

A captured graph reads and writes fixed memory: inputs are copied in, and outputs are views of what the next replay
overwrites.  So whoever calls pads to a bucket, and takes what it needs of the outputs before it calls again.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import torch

Key = TypeVar("Key", bound=Hashable)
Function = Callable[..., "tuple[torch.Tensor, ...]"]

WARM_UP_RUNS = 3
"""Before a capture: libraries choose kernels and get memory at their first calls, which a capture forbids."""


@dataclass(frozen=True, slots=True)
class _Captured:
    graph: "torch.cuda.CUDAGraph"
    inputs: "tuple[torch.Tensor, ...]"
    outputs: "tuple[torch.Tensor, ...]"


class GraphCache(Generic[Key]):
    """Graphs of one function by bucket, such as (frames, rows): `function(bucket, *inputs)`.  Owned by one thread.

    All share a memory pool, so only the outputs of the last replay are valid.  The function must depend on its bucket
    and on shapes alone, and must not wait for the device.  A capture runs it several times: on inputs that move no
    state which anybody uses.  Capture while nothing else runs on the device, that is at loading.
    """

    def __init__(self, function: Function, device: "torch.device") -> None:
        self._function = function
        self._device = device
        self._captured: dict[Key, _Captured] = {}
        self._shapes: dict[Key, tuple[tuple[tuple[int, ...], torch.dtype], ...]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._shapes

    def capture(self, key: Key, *inputs: "torch.Tensor") -> None:
        """Makes a bucket ready with inputs of its shapes; what the function gives for them is dropped."""
        self._shapes[key] = _shapes(inputs)
        if self._device.type == "cuda":
            self._captured[key] = self._capture(key, inputs)

    def __call__(self, key: Key, *inputs: "torch.Tensor") -> "tuple[torch.Tensor, ...]":
        """The function's outputs, valid until the next call.  The inputs of a captured bucket must have its shapes."""
        if key in self._shapes and _shapes(inputs) != self._shapes[key]:
            raise ValueError(f"bucket {key} is of {self._shapes[key]}, not {_shapes(inputs)}")
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
        # On a stream of its own, as capture demands of what runs before it.
        side = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_RUNS):
                self._function(key, *static)
        torch.cuda.current_stream(self._device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        first = next(iter(self._captured.values()), None)
        with torch.cuda.graph(graph, pool=None if first is None else first.graph.pool()):
            outputs = self._function(key, *static)
        return _Captured(graph, static, outputs)


def _shapes(inputs: "Sequence[torch.Tensor]") -> "tuple[tuple[tuple[int, ...], torch.dtype], ...]":
    return tuple((tuple(tensor.shape), tensor.dtype) for tensor in inputs)


class HostCopy:
    """A copy to the host under way: `wait` for it, and the device goes on meanwhile."""

    def __init__(self, tensor: "torch.Tensor") -> None:
        import torch

        self._event: torch.cuda.Event | None = None
        if tensor.device.type != "cuda":
            self._host = tensor.detach().clone()
            return
        # Only to pinned memory is the copy really asynchronous.
        self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self._host.copy_(tensor, non_blocking=True)
        self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._event.record(torch.cuda.current_stream(tensor.device))

    def wait(self) -> "torch.Tensor":
        """The values at the time of the call, on the host; never overwritten."""
        if self._event is not None:
            self._event.synchronize()
        return self._host
