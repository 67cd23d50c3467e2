"""Where may a stream of codec frames be cut?  Chunk boundaries, the initial chunk, growth from lead, the context."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from realtime_tts.engine.scheduling.cost_model import PipelineCosts


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
    """How a model's frames may be cut, all counts in codec frames.

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
            raise ValueError(f"context costs between nothing and as much as a chunk, got {self.context_cost}")

    @property
    def max_frames(self) -> int:
        return max(self.sizes)

    @property
    def context_frames(self) -> float:
        """What is decoded beside each chunk, and thrown away, costs as much as so many frames of the chunk."""
        return self.context_cost * (self.left_context_frames + self.right_context_frames)

    def cost_frames(self, chunk: Chunk, *, skipped_frames: int = 0) -> float:
        """What a decode costs, in frames, where so many of the chunk's own were skipped."""
        decoded = chunk.frames - skipped_frames
        context = chunk.context_end - chunk.context_start - chunk.frames
        return decoded + self.context_cost * context if decoded else 0.0

    def size(self, index: int, *, load: float = 0.0) -> int:
        """The fixed-size policies' chunk number `index` (0 is the initial one).

        The ramp starts later the busier the engine is, `load` being active requests / its places.  For the ramp
        2, 4, 8, 16, 25 the initial chunk is the load-factor table that vLLM-Omni publishes: round(3 · load) steps.
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

    def cut(self, *, decoded: int, frames: int, available: int, complete: bool) -> Chunk:
        """The chunk of the next `frames`, which must be ready.  Chunks tile the stream: every frame once, in order."""
        end = decoded + frames
        assert decoded < end <= available, f"cannot cut {frames} frames at {decoded} of {available}"
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
            yield self.cut(decoded=decoded, frames=size, available=frames, complete=True)
            decoded, index = decoded + size, index + 1


# -- How large?  The rules of continuity, from costs and load ----------------------------------------------------------

DECODE_SHARE = 0.85
"""Of each frame's playing time, what decoding may take: the rest is for jitter."""
QUEUE_FACTOR = 1.5
"""A decode finds another just begun, half of it left on average: so it takes 1.5 times its own time."""
MARGIN_S = 0.040
SHARED_MARGIN_S = 0.060
"""On a shared device a decode also waits for the Talker's step."""
SCATTERS = 2.0
"""Mean misses to allow for: of a normal spread that leaves out 1 step in 20 on the late side."""
SHARED_FRAMES = 6
"""Frames of a usual chunk where decoding shares the Talker's device: what its context is spread over."""


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the engine is.  What the rules derive from it is worked out once, when it is made."""

    costs: PipelineCosts
    plan: ChunkPlan
    frame_s: float
    """Playing time of a codec frame."""
    streams: int
    """Listeners with a request that is not yet wholly decoded."""
    generating: int
    """Requests whose frames are still being made."""
    decode_batch: int
    """Rows that one decode may have."""
    shared_lane: bool
    """Whether both stages take turns on one device."""
    places: int = 64
    sustainable_frames: int = field(init=False)
    """F_min: below this size decoding for all streams takes longer than playing.

    n chunks of F frames, in batches of cb, must decode within their playing time:
    n(a1/cb + b1(F + ctx)) <= 0.85 · F · frame, less F steps of the Talker where that shares the device.
    A decoder that keeps state (ctx = 0) brings F from ~9 to ~2.
    """
    frame_interval_s: float = field(init=False)
    """t_pred: how long a stream waits for its next frame, by the model at the *present* number of streams."""
    decode_wait_s: float = field(init=False)
    """t1q: from when a chunk is ready to when it is sound, a queue of one before it included."""

    def __post_init__(self) -> None:
        costs, streams = self.costs, max(1, self.streams)
        batch = max(1, min(self.decode_batch, streams))
        context = self.plan.context_frames
        spare_s = DECODE_SHARE * self.frame_s - streams * costs.decode.per_unit_s
        step_s = costs.frame(max(1, self.generating)) / max(1.0, costs.frames_per_row)
        if self.shared_lane:
            spare_s -= step_s
        needed_s = streams * (costs.decode.base_s / batch + costs.decode.per_unit_s * context)
        frames = self.plan.max_frames
        if needed_s < spare_s * frames:
            frames = max(1, math.ceil(needed_s / spare_s))
        object.__setattr__(self, "sustainable_frames", frames)
        interval_s = step_s
        if self.shared_lane:
            spread = max(SHARED_FRAMES, frames)
            decode_s = costs.decode.base_s / (batch * spread) + costs.decode.per_unit_s * (1 + context / spread)
            interval_s += streams * decode_s
        object.__setattr__(self, "frame_interval_s", interval_s)
        object.__setattr__(self, "decode_wait_s", QUEUE_FACTOR * costs.decode(batch * (frames + context)))

    @property
    def margin_s(self) -> float:
        """For what no prediction sees: more where steps are seen to miss theirs, as on a CPU that others use too."""
        return (SHARED_MARGIN_S if self.shared_lane else MARGIN_S) + SCATTERS * self.costs.scatter_s


def initial_frames(load: Load, *, complete: bool) -> int:
    """The smallest first chunk that the next one, of F_min frames, can follow in time.

    `complete` says that the stream's frames are all made already, so that nothing waits for them.
    """
    making_s = 0.0 if complete else load.sustainable_frames * load.frame_interval_s
    frames = math.ceil((making_s + load.decode_wait_s + load.margin_s) / load.frame_s)
    return min(max(frames, 1), load.plan.max_frames)


def wanted_frames(load: Load, *, lead_s: float, complete: bool) -> int:
    """How many frames a later chunk should wait for: as many as are made while the listener still has sound.

    Growth follows the measured lead, never a cliff: 25 frames right after 2 starve the listener (160 ms buffered,
    ~320 ms to make at r = 0.16), and a doubling ramp is only safe to r = 0.5.
    """
    if complete:
        return load.sustainable_frames
    spare_s = lead_s - load.decode_wait_s - load.margin_s
    return max(_frames_within(spare_s, load.frame_interval_s, load.plan.max_frames), load.sustainable_frames)


def enough_below_s(load: Load, frames: int) -> float:
    """The lead below which a later chunk of `frames` is large enough: `wanted_frames` turned round, for a quick test.

    `wanted_frames(load, lead_s=lead_s, complete=False) <= frames` exactly where `lead_s` is less than this.
    """
    if frames >= load.plan.max_frames:
        return math.inf
    if frames < load.sustainable_frames:
        return -math.inf
    return load.decode_wait_s + load.margin_s + (frames + 1) * load.frame_interval_s


def affordable_frames(load: Load, *, lead_s: float) -> int:
    """How many frames may be decoded at once before the listener runs dry; what costs less than the margin always may.

    It binds where frames are made faster than they are decoded, such as by a front that gives a sentence's at once.
    """
    largest, context, decode = load.plan.max_frames, math.ceil(load.plan.context_frames), load.costs.decode
    others_s = load.decode_wait_s if load.streams > 1 else 0.0
    budget_s = lead_s - load.margin_s - others_s - decode.base_s
    frames = _frames_within(budget_s, decode.per_unit_s, largest + context) - context
    return max(frames, _frames_within(load.margin_s, decode.per_unit_s, largest))


def _frames_within(budget_s: float, per_frame_s: float, largest: int) -> int:
    """Whole frames that cost no more than the budget, from 0 to `largest`."""
    if budget_s <= 0:
        return 0
    return largest if budget_s >= per_frame_s * largest else math.floor(budget_s / per_frame_s)
