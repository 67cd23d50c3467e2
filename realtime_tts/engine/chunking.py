"""Where may a stream of codec frames be cut?  Chunk boundaries, the initial chunk, the ramp after it, the context."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Chunk:
    """Frames `[start, end)` to be decoded together.  `[context_start, context_end)` is what the decoder is shown."""

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
    """How one request's frames are cut, all counts in codec frames.

    `sizes` is the ramp: the first is the initial chunk, the last repeats.  `left_context_frames` are decoded again
    before each chunk (0 where the decoder keeps state); `right_context_frames` must exist beyond it (0 where the
    decoder is causal).
    """

    sizes: tuple[int, ...]
    left_context_frames: int = 0
    right_context_frames: int = 0

    def __post_init__(self) -> None:
        if not self.sizes or any(size < 1 for size in self.sizes):
            raise ValueError(f"chunk sizes must be positive and at least one, got {self.sizes}")
        if self.left_context_frames < 0 or self.right_context_frames < 0:
            raise ValueError("context cannot be negative")

    @property
    def initial_frames(self) -> int:
        return self.sizes[0]

    def size(self, index: int) -> int:
        """The size of the stream's chunk number `index` (0 is the initial one)."""
        return self.sizes[min(index, len(self.sizes) - 1)]

    def for_load(self, load: float) -> "ChunkPlan":
        """Starts later on the ramp the busier the engine is, `load` being active requests / capacity, 0 and up.

        Small first chunks buy a quick first sound but cost the most per second of audio, and leave the least time
        to make the next one.  For the ramp 2, 4, 8, 16, 25 this is the load-factor table that vLLM-Omni publishes:
        round(3 · load) steps, so 2, 4, 8 or 16 frames.
        """
        skip = min(round(3 * min(load, 1.0)), len(self.sizes) - 1)
        return replace(self, sizes=self.sizes[skip:])

    def with_initial(self, frames: int) -> "ChunkPlan":
        """The same plan from another initial chunk; what follows at most doubles, so the ramp has no cliff.

        25 frames right after 2 starve the listener: 160 ms are buffered while ~320 ms of work is done (r = 0.16).
        """
        sizes = [frames]
        while sizes[-1] < self.sizes[-1]:
            sizes.append(min(2 * sizes[-1], self.sizes[-1]))
        return replace(self, sizes=tuple(sizes))


def next_chunk(plan: ChunkPlan, *, index: int, decoded: int, available: int, complete: bool) -> Chunk | None:
    """The chunk to decode next, or None while its frames are not all there.

    `index` chunks and `decoded` frames have been handed on, `available` frames exist, and `complete` says that no
    more will come.  Chunks tile the stream: every frame once, in order.
    """
    if decoded >= available:
        return None
    end = decoded + plan.size(index)
    if complete:
        end = min(end, available)
    elif end + plan.right_context_frames > available:
        return None
    return Chunk(
        start=decoded,
        end=end,
        context_start=max(0, decoded - plan.left_context_frames),
        context_end=min(available, end + plan.right_context_frames),
        final=complete and end == available,
    )
