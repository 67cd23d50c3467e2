"""Chunk boundaries: which codec frames are decoded together, and with which context."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chunk:
    """Frames `[start, end)`, decoded together.  The decoder gets `[context_start, context_end)`."""

    start: int
    end: int
    context_start: int
    context_end: int
    final: bool

    @property
    def frames(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """How a model's frames may be divided into chunks.  All counts are in codec frames.

    `sizes` is the ramp of the fixed-size policies: the first is the initial chunk, the last repeats, and no chunk of
    any policy is longer than the longest.  `left_context_frames` are decoded again before each chunk (0 where the
    decoder keeps state); `right_context_frames` must exist beyond it (0 where the decoder is causal).  `context_cost`
    is what one of these costs, as a share of a frame of the chunk.  `shapes`, where given, are the only sizes that are
    quick: those that are compiled or captured.
    """

    sizes: tuple[int, ...]
    left_context_frames: int = 0
    right_context_frames: int = 0
    context_cost: float = 1.0
    shapes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.sizes or any(size < 1 for size in (*self.sizes, *self.shapes)):
            raise ValueError(f"chunk sizes must be positive and at least one, got {self.sizes}, {self.shapes}")
        if self.left_context_frames < 0 or self.right_context_frames < 0:
            raise ValueError("context cannot be negative")
        if not 0.0 <= self.context_cost <= 1.0:
            raise ValueError(f"context_cost must be between 0 and 1, got {self.context_cost}")

    @property
    def max_frames(self) -> int:
        return max(self.sizes)

    @property
    def context_frames(self) -> float:
        """The context of a chunk costs as much as so many frames of the chunk."""
        return self.context_cost * (self.left_context_frames + self.right_context_frames)

    def cost_frames(self, chunk: Chunk, *, skipped_frames: int = 0) -> float:
        """What a decode costs, in frames, where so many of the chunk's own were skipped."""
        decoded = chunk.frames - skipped_frames
        context = chunk.context_end - chunk.context_start - chunk.frames
        return decoded + self.context_cost * context if decoded else 0.0

    def size(self, index: int, *, load: float = 0.0) -> int:
        """The fixed-size policies' chunk number `index` (0 is the initial one).

        The ramp begins later the busier the engine is, `load` being active requests / nominal streams.  For the ramp
        2, 4, 8, 16, 25 the initial chunk is the load-factor table that vLLM-Omni documents: round(3 · load) steps.
        """
        if index > 0:
            return self.sizes[-1]
        return self.sizes[min(round(3 * min(load, 1.0)), len(self.sizes) - 1)]

    def snapped(self, frames: int) -> int:
        """The largest quick size within `frames`, or the smallest there is."""
        if not self.shapes:
            return frames
        return max((shape for shape in self.shapes if shape <= frames), default=min(self.shapes))

    def ready(self, *, decoded: int, available: int, complete: bool) -> int:
        """Frames that could be decoded now, of `available` and `decoded` before."""
        return max(0, available - decoded - (0 if complete else self.right_context_frames))

    def chunk(self, *, decoded: int, frames: int, available: int, complete: bool) -> Chunk:
        """The chunk of the next `frames`, which must be ready.  Chunks cover the stream: every frame once, in order."""
        end = decoded + frames
        assert decoded < end <= available, f"no chunk of {frames} frames at {decoded} of {available}"
        return Chunk(
            start=decoded,
            end=end,
            context_start=max(0, decoded - self.left_context_frames),
            context_end=min(available, end + self.right_context_frames),
            final=complete and end == available,
        )

    def ramp(self, frames: int) -> Iterator[Chunk]:
        """A whole stream of so many frames in chunks of `sizes`, the last repeating: for work without a listener."""
        decoded, index = 0, 0
        while decoded < frames:
            size = min(self.sizes[min(index, len(self.sizes) - 1)], frames - decoded)
            yield self.chunk(decoded=decoded, frames=size, available=frames, complete=True)
            decoded, index = decoded + size, index + 1
