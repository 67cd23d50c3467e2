"""Admission: how many listeners can be kept continuous at the measured costs, and whether one more may wait."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from realtime_tts.engine.scheduling.chunk_size import initial_frames
from realtime_tts.engine.scheduling.load import Load
from realtime_tts.errors import Overloaded

UTILISATION = 0.92
SHARED_UTILISATION = 0.85
"""The part of a device's time that admitted streams may need.  A shared device also loses time between its stages.

0.92 with every prefill counted in full; the design's 0.90 counted it at the rate of playing, which is equivalent.
"""
USUAL_LATER_FRAMES = 8
COMFORTABLE_LEAD_S = 2.5
"""A stream this far ahead of its listener needs no capacity now."""
MAX_CAPACITY = 4096


def modelled_capacity(load: Load, request_frames: float) -> int:
    """The largest number of streams whose modelled utilisation stays within bounds; at least one.

    `load` gives costs, lanes and plan; its own numbers of streams do not matter.  `request_frames` is a usual request's
    length: its first chunk and its tail cost more than the frames between, and it has one prefill.
    """
    low, high = 1, MAX_CAPACITY
    while low < high:
        middle = (low + high + 1) // 2
        if _fits(load, middle, request_frames):
            low = middle
        else:
            high = middle - 1
    return low


def _fits(load: Load, streams: int, request_frames: float) -> bool:
    full = Load(
        costs=load.costs,
        plan=load.plan,
        frame_s=load.frame_s,
        streams=streams,
        generating=streams,
        decode_batch=load.decode_batch,
        lanes=load.lanes,
        upstream_rows=(streams,) * len(load.costs.upstream),
    )
    shares: defaultdict[str, float] = defaultdict(float)
    for lane, share in zip(load.lanes, _shares(full, streams, request_frames), strict=True):
        shares[lane.name] += share
    stages = Counter(lane.name for lane in load.lanes)
    limits = {name: UTILISATION if count == 1 else SHARED_UTILISATION for name, count in stages.items()}
    return all(share <= limits[name] for name, share in shares.items())


def _shares(full: Load, streams: int, request_frames: float) -> list[float]:
    """The part of a lane's time that each stage needs for so many streams, in pipeline order."""
    costs, (*upstream_lanes, frame_lane, decode_lane) = full.costs, full.lanes
    playing_s = request_frames * full.frame_s
    shares = []
    for lane, each in zip(upstream_lanes, costs.upstream, strict=True):
        rows = lane.requests(streams)
        shares.append(each.seconds_per_frame(rows) / full.frame_s + rows * each.prefill_s / playing_s)
    rows = frame_lane.requests(streams)
    frame_share = costs.frame(rows) / (max(1.0, costs.frames_per_row) * full.frame_s)
    shares.append(frame_share + rows * costs.prefill_s / playing_s)
    shares.append(_decode_share(full, decode_lane.requests(streams), request_frames))
    return shares


def _decode_share(full: Load, streams: int, request_frames: float) -> float:
    costs, plan = full.costs, full.plan
    at_once = costs.frames_per_row >= plan.max_frames
    first = min(initial_frames(full, complete=at_once), request_frames)
    # Frames that are all made at once leave chunks free to grow to their full size, as soon as there is some lead.
    later = plan.max_frames if at_once else max(full.sustainable_frames, USUAL_LATER_FRAMES)
    chunks = 1 + math.ceil(max(0.0, request_frames - first) / later)
    batch = max(1, min(full.decode_batch, streams))
    decode_s = chunks * (costs.decode.base_s / batch + costs.decode.per_unit_s * plan.context_frames)
    decode_s += request_frames * costs.decode.per_unit_s
    return streams * decode_s / (request_frames * full.frame_s)


@dataclass(slots=True)
class Feedback:
    """Corrects the modelled capacity by the leads of listeners: too little lead lowers it, much lead restores it."""

    LOW_TICKS = 3
    HIGH_S = 5.0
    HIGH_LEAD_S = 1.0
    SHRINK = 0.95
    LEAST = 0.5

    factor: float = 1.0
    _low_ticks: int = 0
    _high_since_s: float | None = None

    def observe(self, leads_s: Sequence[float], load: Load, *, capacity: int, now_s: float) -> None:
        """Called once a tick with the leads of the streams that play and are not yet wholly generated."""
        if not leads_s:
            self._low_ticks, self._high_since_s = 0, None
            return
        ordered = sorted(leads_s)
        low = ordered[len(ordered) // 20] < load.margin_s
        self._low_ticks = self._low_ticks + 1 if low else 0
        if self._low_ticks >= self.LOW_TICKS:
            self._low_ticks = 0
            self.factor = max(self.LEAST, self.factor * self.SHRINK)
        if ordered[len(ordered) // 10] <= self.HIGH_LEAD_S:
            self._high_since_s = None
        elif self._high_since_s is None:
            self._high_since_s = now_s
        elif now_s - self._high_since_s >= self.HIGH_S:
            self._high_since_s = now_s
            self.factor = min(1.0, self.factor + 1.0 / max(1, capacity))


class Admission:
    """The present capacity, and whether one more listener may wait for it.  Owned by the engine."""

    TICK_S = 0.25
    SMOOTHING = 0.05
    USUAL_REQUEST_S = 5.0

    def __init__(self, max_wait_s: float | None) -> None:
        self._max_wait_s = max_wait_s
        self._feedback = Feedback()
        self._request_s = self.USUAL_REQUEST_S
        self._capacity = MAX_CAPACITY
        self._next_tick_s: float | None = None

    @property
    def capacity(self) -> int:
        """Streams that may be without a comfortable lead at once."""
        return self._capacity

    def due(self, now_s: float) -> bool:
        return self._next_tick_s is None or now_s >= self._next_tick_s

    def estimate(self, load: Load) -> None:
        """The capacity before the first tick, by the model's own statement of its costs."""
        self._capacity = modelled_capacity(load, self._request_s / load.frame_s)

    def tick(self, load: Load, leads_s: Sequence[float], now_s: float) -> None:
        """Recalculates the capacity from the present costs and leads."""
        self._next_tick_s = now_s + self.TICK_S
        self._feedback.observe(leads_s, load, capacity=self._capacity, now_s=now_s)
        modelled = modelled_capacity(load, self._request_s / load.frame_s)
        self._capacity = max(1, round(modelled * self._feedback.factor))

    def observe_request(self, audio_s: float) -> None:
        """A request was decoded completely and gave so much audio."""
        self._request_s += self.SMOOTHING * (audio_s - self._request_s)

    def refusal(self, queued: int, capacity: int) -> Overloaded | None:
        """Why a new listener may not wait behind `queued` others; None where it may.

        Capacity becomes free at the rate capacity / request.  A listener who would wait longer than a person accepts is
        refused at once, with the time after which to retry.
        """
        wait_s = (queued + 1) * self._request_s / capacity
        if self._max_wait_s is None or wait_s <= self._max_wait_s:
            return None
        return Overloaded(
            f"at the capacity of {capacity} listeners with {queued} waiting: the expected wait is {wait_s:.1f} s",
            retry_after_s=max(1.0, round(wait_s, 1)),
        )
