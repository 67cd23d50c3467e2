"""May one more listener start?  As many as can all be kept in sound, by the costs that were measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from realtime_tts.engine.scheduling.chunking import Load, initial_frames
from realtime_tts.errors import Overloaded

UTILISATION = 0.92
SHARED_UTILISATION = 0.85
"""Of a device's time, what admitted streams may need.  A shared device also loses time between its two stages.

0.92 with every prefill counted in full; the design's 0.90 counted it at the rate of playing, and comes to the same.
"""
USUAL_LATER_FRAMES = 8
COMFORTABLE_LEAD_S = 2.5
"""A stream this far ahead of its listener needs no place now."""
MAX_PLACES = 4096


def capacity(load: Load, request_frames: float) -> int:
    """The largest number of streams whose modelled utilisation stays within bounds; at least one.

    `load` gives costs and plan; its own numbers of streams do not matter.  `request_frames` is a usual request's
    length: its first chunk and its tail cost more than the frames between, and its prefill comes once.
    """
    low, high = 1, MAX_PLACES
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
        shared_lane=load.shared_lane,
    )
    costs = load.costs
    playing_s = request_frames * load.frame_s
    frame_share = costs.frame(streams) / (max(1.0, costs.frames_per_row) * load.frame_s)
    frame_share += streams * costs.prefill_s / playing_s
    at_once = costs.frames_per_row >= load.plan.max_frames
    first = min(initial_frames(full, complete=at_once), request_frames)
    # Frames that are all made at once leave chunks free to grow to their full size, as soon as there is some lead.
    later = load.plan.max_frames if at_once else max(full.sustainable_frames, USUAL_LATER_FRAMES)
    chunks = 1 + math.ceil(max(0.0, request_frames - first) / later)
    batch = max(1, min(load.decode_batch, streams))
    decode_s = chunks * (costs.decode.base_s / batch + costs.decode.per_unit_s * load.plan.context_frames)
    decode_s += request_frames * costs.decode.per_unit_s
    decode_share = streams * decode_s / playing_s
    if load.shared_lane:
        return frame_share + decode_share <= SHARED_UTILISATION
    return max(frame_share, decode_share) <= UTILISATION


@dataclass(slots=True)
class Feedback:
    """Corrects the model by what listeners have: too little lead takes places away, much gives them back."""

    LOW_TICKS = 3
    HIGH_S = 5.0
    HIGH_LEAD_S = 1.0
    SHRINK = 0.95
    LEAST = 0.5

    factor: float = 1.0
    _low_ticks: int = 0
    _high_since_s: float | None = None

    def observe(self, leads_s: Sequence[float], load: Load, *, places: int, now_s: float) -> None:
        """Called once a tick with the leads of the streams that sound and are not done."""
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
            self.factor = min(1.0, self.factor + 1.0 / max(1, places))


class Admission:
    """How many places there are now, and whether one more may wait for one.  Owned by the engine."""

    TICK_S = 0.25
    SMOOTHING = 0.05
    USUAL_REQUEST_S = 5.0

    def __init__(self, max_wait_s: float | None) -> None:
        self._max_wait_s = max_wait_s
        self._feedback = Feedback()
        self._request_s = self.USUAL_REQUEST_S
        self._places = MAX_PLACES
        self._next_tick_s: float | None = None

    @property
    def places(self) -> int:
        """Streams that may be without a comfortable lead at once."""
        return self._places

    def due(self, now_s: float) -> bool:
        return self._next_tick_s is None or now_s >= self._next_tick_s

    def tick(self, load: Load, leads_s: Sequence[float], now_s: float) -> None:
        """Works the places out anew, by the costs and leads of now."""
        self._next_tick_s = now_s + self.TICK_S
        self._feedback.observe(leads_s, load, places=self._places, now_s=now_s)
        modelled = capacity(load, self._request_s / load.frame_s)
        self._places = max(1, round(modelled * self._feedback.factor))

    def observe_request(self, audio_s: float) -> None:
        """A request has been decoded to its end, and gave so much sound."""
        self._request_s += self.SMOOTHING * (audio_s - self._request_s)

    def refusal(self, queued: int, places: int) -> Overloaded | None:
        """Why the next to come may not wait behind `queued` others for one of the `places`; None where it may.

        Places become free at the pace of places / request.  Waiting longer than a person would is refused at once,
        with the time after which to come again.
        """
        wait_s = (queued + 1) * self._request_s / places
        if self._max_wait_s is None or wait_s <= self._max_wait_s:
            return None
        return Overloaded(
            f"all {places} places are taken, and {queued} wait: expected in {wait_s:.1f} s",
            retry_after_s=max(1.0, round(wait_s, 1)),
        )
