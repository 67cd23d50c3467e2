"""Scheduling policies: pure functions from a snapshot of the engine to the next batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from realtime_tts.engine.scheduling.chunk_size import (
    affordable_frames,
    enough_below_s,
    initial_frames,
    wanted_frames,
)
from realtime_tts.engine.scheduling.load import Load


class Candidate(NamedTuple):
    """A request that a stage could advance now.  A tuple: hundreds are made in every step."""

    deadline_s: float
    """When its listener runs dry, unless this is done by then; what a stage has already made counts as audio."""
    sequence: int
    """Order of submission: breaks ties, first come first served."""
    request_id: str
    pending_frames: int = 0
    """Frames that could be decoded now (last stage only, as all that follows)."""
    complete: bool = False
    """Whether its frames are all made."""
    chunks: int = 0
    """Chunks decoded before."""
    served_s: float = 0.0
    """When its last chunk was launched, or when it was submitted."""
    initial_frames: int | None = None
    """The client's own choice of the first chunk."""
    frames: int = 0
    """How many of them to decode: set by the policy, in the rows of a batch."""


@dataclass(frozen=True, slots=True)
class StageView:
    """What a stage could do on one lane."""

    name: str
    lane: str
    max_batch: int
    decodes: bool
    candidates: Sequence[Candidate]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a policy may know; the stages in pipeline order."""

    now_s: float
    load: Load
    stages: tuple[StageView, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    stage: str
    rows: tuple[Candidate, ...]


Policy: TypeAlias = Callable[[Snapshot, str], Batch | None]
"""(snapshot, idle lane) -> what to launch there, or None to leave it idle."""

FILL_FRAMES = 4
"""A stream with at least so many frames may fill up a batch on a shared device, before it is urgent."""
URGENT_INTERVALS = 2
"""A decode that can wait for two more steps of the Talker does: the batch may fill up meanwhile."""

_by_deadline = attrgetter("deadline_s", "sequence")
_by_service = attrgetter("served_s", "sequence")


def playout_deadline(snapshot: Snapshot, lane: str) -> Batch | None:
    """The default policy: the listener who runs dry first is served first, in chunks as large as the lead allows.

    On a lane of its own Code2Wav serves the earliest deadlines among the chunks that are large enough.  On a shared
    device a decode takes the Talker's time, so it is delayed until it is urgent, is the first of a stream, fills its
    batch, or the Talker has nothing to do; then the batch is filled up with streams that have a few frames.
    """
    decoder = _idle_stage(snapshot, lane, decodes=True)
    shared = _idle_stage(snapshot, lane, decodes=False)
    if decoder is None:
        return _frame_batch(shared, by_deadline=True)
    load, now_s = snapshot.load, snapshot.now_s
    eligible = _large_enough(decoder.candidates, load, now_s)
    if shared is not None and shared.candidates and not _decode_now(eligible, load, now_s, decoder.max_batch):
        return _frame_batch(shared, by_deadline=True)
    if not eligible:
        return None
    chosen = nsmallest(decoder.max_batch, eligible)
    if shared is not None and len(chosen) < decoder.max_batch:
        chosen_ids = {row.request_id for row in chosen}
        others = [row for row in decoder.candidates if row.pending_frames >= FILL_FRAMES and row.chunks]
        fillers = [row for row in others if row.request_id not in chosen_ids]
        chosen += nsmallest(decoder.max_batch - len(chosen), fillers)
    return Batch(decoder.name, tuple(row._replace(frames=_frames(row, load, now_s)) for row in chosen))


def _large_enough(rows: Sequence[Candidate], load: Load, now_s: float) -> list[Candidate]:
    """The rows whose pending frames make a chunk now.  The one loop over all streams, so the sizes are in a table."""
    if load.plan.shapes:  # a size that snaps down is reached earlier
        return [row for row in rows if row.complete or row.pending_frames >= _target(row, load, now_s)]
    first = initial_frames(load, complete=False)
    enough_s = [now_s + enough_below_s(load, frames) for frames in range(load.plan.max_frames + 1)]
    last = load.plan.max_frames
    return [
        row
        for row in rows
        if row.complete
        or (
            row.deadline_s < enough_s[row.pending_frames if row.pending_frames < last else last]
            if row.chunks
            else row.pending_frames >= (first if row.initial_frames is None else row.initial_frames)
        )
    ]


def _target(row: Candidate, load: Load, now_s: float) -> int:
    if row.chunks:
        frames = wanted_frames(load, lead_s=row.deadline_s - now_s, complete=row.complete)
    elif row.initial_frames is not None:
        return row.initial_frames
    else:
        frames = initial_frames(load, complete=row.complete)
    return load.plan.snapped(frames)


def _frames(row: Candidate, load: Load, now_s: float) -> int:
    """How many of its pending frames a chosen row decodes."""
    target = _target(row, load, now_s)
    if row.chunks:
        target = load.plan.snapped(max(target, affordable_frames(load, lead_s=row.deadline_s - now_s)))
    elif row.initial_frames is None and not row.complete:
        target = load.plan.max_frames  # pending frames beyond its target cost next to nothing more
    frames = min(row.pending_frames, target)
    if row.complete and frames == row.pending_frames:
        return frames  # the last chunk has the size that is left
    return min(load.plan.snapped(frames), row.pending_frames)


def _decode_now(eligible: Sequence[Candidate], load: Load, now_s: float, max_batch: int) -> bool:
    """Whether a decode on a shared device should go before the Talker's next step."""
    if not eligible:
        return False
    if (max_batch > 1 and len(eligible) >= max_batch) or any(not row.chunks for row in eligible):
        return True
    batch = min(max_batch, len(eligible))
    decode_s = load.costs.decode(batch * (load.sustainable_frames + load.plan.context_frames))
    least_slack_s = min(eligible).deadline_s - now_s
    return least_slack_s <= decode_s + URGENT_INTERVALS * load.frame_interval_s + load.margin_s


# -- Policies for comparison -------------------------------------------------------------------------------------------


def fixed_sizes(
    *,
    initial: int | None = None,
    by_deadline: bool = False,
    window: int | None = None,
) -> Policy:
    """Chunks of the plan's fixed sizes, round robin over all streams that have one, independent of their leads.

    `initial` fixes the first chunk, in place of the load table.  `by_deadline` decodes the earliest deadline first.
    `window` serves only so many streams, first come first served, until each is done.
    """

    def policy(snapshot: Snapshot, lane: str) -> Batch | None:
        decoder = _idle_stage(snapshot, lane, decodes=True)
        if decoder is not None:
            rows = decoder.candidates
            if window is not None:
                rows = nsmallest(window, rows, key=attrgetter("sequence"))
            sized = [(row, _fixed(row, snapshot.load)) for row in rows]
            ready = [(row, size) for row, size in sized if row.complete or row.pending_frames >= size]
            order = _by_deadline if by_deadline else _by_service
            chosen = nsmallest(decoder.max_batch, ready, key=lambda each: order(each[0]))
            if chosen:
                sizes = (row._replace(frames=min(size, row.pending_frames)) for row, size in chosen)
                return Batch(decoder.name, tuple(sizes))
        return _frame_batch(_idle_stage(snapshot, lane, decodes=False), by_deadline=False)

    def _fixed(row: Candidate, load: Load) -> int:
        if not row.chunks and row.initial_frames is not None:
            return row.initial_frames
        if not row.chunks and initial is not None:
            return initial
        return load.plan.size(row.chunks, load=load.streams / load.nominal_streams)

    return policy


def _idle_stage(snapshot: Snapshot, lane: str, *, decodes: bool) -> StageView | None:
    """The stage of that kind on this lane; of several frame stages the one with the most urgent work."""
    stages = [stage for stage in snapshot.stages if stage.lane == lane and stage.decodes is decodes]
    if len(stages) > 1:
        busy = [stage for stage in stages if stage.candidates]
        return min(busy, key=lambda stage: min(stage.candidates), default=stages[0])
    return stages[0] if stages else None


def _frame_batch(stage: StageView | None, *, by_deadline: bool) -> Batch | None:
    """All admitted rows in one batch; where they are more than its maximum, the most urgent, or round robin."""
    if stage is None or not stage.candidates:
        return None
    rows = stage.candidates
    if len(rows) > stage.max_batch:
        rows = nsmallest(stage.max_batch, rows, key=_by_deadline if by_deadline else _by_service)
    return Batch(stage.name, tuple(rows))


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A policy and its admission, chosen by one word of configuration."""

    policy: Policy
    admission: bool
    """Whether new listeners wait for capacity, or all are admitted at once."""


SCHEDULERS = {
    "deadline": Scheduler(playout_deadline, admission=True),
    "round_robin": Scheduler(fixed_sizes(initial=25), admission=False),
    "policy_c": Scheduler(fixed_sizes(), admission=False),
    "bounded_window": Scheduler(fixed_sizes(window=4), admission=False),
    "edf_only": Scheduler(fixed_sizes(by_deadline=True), admission=False),
}
"""`deadline` is ours.  `policy_c` is vLLM-Omni's: round robin, initial chunk 2, 4, 8 or 16 by load, then 25."""
