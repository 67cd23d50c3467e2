"""Admission: how many listeners can be kept continuous at the measured costs, and whether one more may wait."""

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


def modelled_interval_s(load: Load, streams: int, request_frames: float) -> float:
    """Seconds between the ends of two requests, while so many streams share the lanes."""
    shares = _lane_shares(load, streams, request_frames)
    return max(shares.values()) * request_frames * load.frame_s / streams


def _fits(load: Load, streams: int, request_frames: float) -> bool:
    stages = Counter(lane.name for lane in load.lanes)
    limits = {name: UTILISATION if count == 1 else SHARED_UTILISATION for name, count in stages.items()}
    return all(share <= limits[name] for name, share in _lane_shares(load, streams, request_frames).items())


def _lane_shares(load: Load, streams: int, request_frames: float) -> dict[str, float]:
    """The part of each lane's time that so many streams need."""
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
    return shares


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
    # The expected number: lengths vary, so the last chunk is half as long as the others on average.  Rounded up for the
    # mean length, one frame more added a chunk to all requests, and the capacity jumped between 60 and 98.
    chunks = 1 + max(0.0, request_frames - first) / later + 0.5 * (request_frames > first)
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


@dataclass(slots=True)
class QueueRate:
    """How fast queued requests are admitted: what a refused one is advised to wait follows from it."""

    SMOOTHING = 0.2
    MAX_RETRY_S = 60.0
    """Clients ignore longer ones: the SDKs of OpenAI do."""

    max_queued: int
    _interval_s: float | None = None
    """Between two admissions while requests wait; None before the first."""
    _since_s: float | None = None
    """The last admission, or when the first of those that wait was queued; None while none waits."""
    _next_retry_s: float = 0.0

    def on_admitted(self, now_s: float) -> None:
        if self._since_s is not None:
            interval_s = now_s - self._since_s
            before_s = interval_s if self._interval_s is None else self._interval_s
            self._interval_s = before_s + self.SMOOTHING * (interval_s - before_s)
            self._since_s = now_s

    def on_waiting(self, waiting: int, now_s: float) -> None:
        """So many requests wait now."""
        if not waiting:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = now_s

    def retry_after_s(self, queued: int, modelled_interval_s: float, now_s: float) -> float:
        """When a request that comes back will not have to wait long, with `queued` others waiting now.

        Every refused one gets a later time than the one before: otherwise all would come back at once, and most would
        be refused again.  Over HTTP the time is in whole seconds: no more may share one than the queue has room for.
        """
        interval_s = modelled_interval_s if self._interval_s is None else self._interval_s
        step_s = max(interval_s, 1.0 / max(1, self.max_queued))
        since_s = now_s if self._since_s is None else self._since_s
        # If the present interval is already longer than usual, it will be about as long again.
        wait_s = max(interval_s, now_s - since_s) + queued * interval_s
        at_s = min(max(now_s + wait_s, self._next_retry_s + step_s), now_s + self.MAX_RETRY_S)
        self._next_retry_s = at_s
        return at_s - now_s


class Admission:
    """The present capacity, and whether one more listener may wait for it.  Owned by the engine."""

    TICK_S = 0.25
    SMOOTHING = 0.05
    USUAL_REQUEST_S = 5.0
    LEAST_NEW_SHARE = 0.05
    RETRY_GRACE_S = 0.5
    """A client that retries is so much later than it was advised, at most."""

    def __init__(self, max_wait_s: float | None, max_queued: int = 0) -> None:
        self._max_wait_s = max_wait_s
        self._feedback = Feedback()
        self._request_s = self.USUAL_REQUEST_S
        self._new_share = 1.0
        """Of the admitted utterances, those of new listeners: the others keep the capacity of the one before."""
        self._capacity = MAX_CAPACITY
        self._next_tick_s: float | None = None
        self._queue_rate = QueueRate(max_queued)
        self._live_retry_s: float | None = None
        """When a refused listener is expected to retry."""

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

    def observe_admission(self, *, new: bool) -> None:
        """A listener's utterance was admitted, who is new or spoke before."""
        if new:
            self._live_retry_s = None
        self._new_share += self.SMOOTHING * (new - self._new_share)

    def refusal(self, queued: int, capacity: int, now_s: float) -> Overloaded | None:
        """Why a new listener may not wait behind `queued` others; None where it may.

        Capacity becomes free at the rate capacity / request, except for what listeners keep for their next utterance.
        One who would wait longer than a person accepts is refused at once, with the time after which to retry.
        """
        wait_s = (queued + 1) * self._request_s / (capacity * max(self.LEAST_NEW_SHARE, self._new_share))
        if self._max_wait_s is None or wait_s <= self._max_wait_s:
            return None
        retry_after_s = max(1.0, round(wait_s, 1))
        self._live_retry_s = now_s + retry_after_s
        return Overloaded(
            f"at the capacity of {capacity} listeners with {queued} waiting: the expected wait is {wait_s:.1f} s",
            retry_after_s=retry_after_s,
        )

    # -- Requests that nobody listens to yet ---------------------------------------------------------------------------

    def patient_capacity(self, capacity: int, load: Load, now_s: float) -> int:
        """How many streams there may be for a queued request to be admitted.

        One fewer if it would use the capacity when a refused listener retries: else the queue, which always has a
        request ready, would take all capacity that becomes free, and listeners would be refused time after time.
        """
        if self._live_retry_s is None or now_s >= self._live_retry_s + self.RETRY_GRACE_S:
            return capacity
        ends_s = now_s + capacity * self._modelled_interval_s(load, capacity)
        return capacity if ends_s < self._live_retry_s else capacity - 1

    def _modelled_interval_s(self, load: Load, capacity: int) -> float:
        return modelled_interval_s(load, capacity, self._request_s / load.frame_s)

    def on_patient_admitted(self, now_s: float) -> None:
        self._queue_rate.on_admitted(now_s)

    def on_patients_waiting(self, waiting: int, now_s: float) -> None:
        """So many queued requests could not be admitted."""
        self._queue_rate.on_waiting(waiting, now_s)

    def patient_refusal(self, words: str, queued: int, capacity: int, load: Load, now_s: float) -> Overloaded:
        """The refusal of a request that waited too long, or found no room in the queue, with `queued` others in it."""
        wait_s = self._queue_rate.retry_after_s(queued, self._modelled_interval_s(load, capacity), now_s)
        return Overloaded(f"{words}; retry in about {wait_s:.0f} s", retry_after_s=max(1.0, round(wait_s, 1)))

    def next_change_s(self, due_s: float, now_s: float) -> float:
        """When a queued request can be admitted though nothing else happens, or `due_s`, which is earlier."""
        if self._live_retry_s is None or now_s >= self._live_retry_s + self.RETRY_GRACE_S:
            return due_s
        return min(due_s, self._live_retry_s + self.RETRY_GRACE_S)
