"""Load: how busy the engine is, and what follows from it for the sizes of chunks."""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.scheduling.cost_model import PipelineCosts

DECODE_SHARE = 0.85
"""The part of each frame's playing time that decoding may take: the rest is for jitter."""
QUEUE_FACTOR = 1.5
"""A decode waits for the one that runs, half of which is left on average: so it takes 1.5 times its own time."""
MARGIN_S = 0.040
SHARED_MARGIN_S = 0.060
"""On a shared device a decode also waits for the Talker's step."""
DEVIATIONS = 2.0
"""Mean deviations to allow for: of a normal distribution that leaves out 1 late step in 20."""
SHARED_FRAMES = 6
"""Frames of a usual chunk where decoding shares the Talker's device: the context is divided by so many."""


class StageLane(NamedTuple):
    """The device, or share of one, that a stage runs on.  Stages with the same name share it."""

    name: str
    replicas: int = 1
    """Lanes of this kind: the requests of the stage are spread over them."""

    def requests(self, total: int) -> int:
        """The requests on the fullest of its lanes, of so many in total."""
        return -(-total // self.replicas)


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the engine is.  The derived values are calculated once, in `__post_init__`."""

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
    lanes: tuple[StageLane, ...]
    """Where each stage runs, in pipeline order."""
    upstream_rows: tuple[int, ...] = ()
    """For each stage before the frame stage: requests that it has not finished."""
    nominal_streams: int = 64
    """The streams at which the fixed-size policies count the engine as full."""
    token_interval_s: float = 0.0
    """How often a token of an answer arrives: a frame needs its token, so frames are not made faster."""
    shared_lane: bool = field(init=False)
    """Whether the decoder shares its lane with another stage."""
    sustainable_frames: int = field(init=False)
    """F_min: below this size decoding for all streams takes longer than playing.

    n chunks of F frames, in batches of cb, must decode within their playing time:
    n(a1/cb + b1(F + ctx)) <= 0.85 · F · frame, less F steps of the Talker where that shares the device.
    A decoder that keeps state (ctx = 0) brings F from ~9 to ~2.
    """
    frame_interval_s: float = field(init=False)
    """t_pred: how long a stream waits for its next frame, by the model at the *present* number of streams."""
    decode_wait_s: float = field(init=False)
    """t1q: from when a chunk is ready until it is decoded, a queue of one before it included."""

    def __post_init__(self) -> None:
        costs, lane = self.costs, self.lanes[-1]
        streams = lane.requests(max(1, self.streams))
        batch = max(1, min(self.decode_batch, streams))
        context = self.plan.context_frames
        stepping_s = self._stepping_s()
        shared = lane.name in stepping_s
        spare_s = DECODE_SHARE * self.frame_s - streams * costs.decode.per_unit_s - stepping_s.get(lane.name, 0.0)
        needed_s = streams * (costs.decode.base_s / batch + costs.decode.per_unit_s * context)
        frames = self.plan.max_frames
        if needed_s < spare_s * frames:
            frames = max(1, math.ceil(needed_s / spare_s))
        if shared:
            spread = max(SHARED_FRAMES, frames)
            decode_s = costs.decode.base_s / (batch * spread) + costs.decode.per_unit_s * (1 + context / spread)
            stepping_s[lane.name] += streams * decode_s
        object.__setattr__(self, "shared_lane", shared)
        object.__setattr__(self, "sustainable_frames", frames)
        # The slowest lane sets the rate of the whole pipeline.
        object.__setattr__(self, "frame_interval_s", max(self.token_interval_s, *stepping_s.values()))
        object.__setattr__(self, "decode_wait_s", QUEUE_FACTOR * costs.decode(batch * (frames + context)))

    def _stepping_s(self) -> dict[str, float]:
        """By lane: time in launches until every request has one more frame, all stages but the decoder."""
        costs, (*upstream, frame_lane, _decode_lane) = self.costs, self.lanes
        step_s = costs.frame(max(1, frame_lane.requests(self.generating))) / max(1.0, costs.frames_per_row)
        if not upstream:
            return {frame_lane.name: step_s}
        seconds = defaultdict(float, {frame_lane.name: step_s})
        for lane, each, rows in zip(upstream, costs.upstream, self.upstream_rows, strict=True):
            if rows:
                seconds[lane.name] += each.seconds_per_frame(lane.requests(rows))
        return seconds

    @property
    def margin_s(self) -> float:
        """For what no prediction includes: larger where steps deviate from theirs, as on a CPU with other processes."""
        return (SHARED_MARGIN_S if self.shared_lane else MARGIN_S) + DEVIATIONS * self.costs.deviation_s
