"""Chunk sizes that keep a stream continuous, from costs and load."""

import math

from realtime_tts.engine.scheduling.load import Load


def initial_frames(load: Load, *, complete: bool) -> int:
    """The smallest first chunk that the next one, of F_min frames, can follow in time.

    `complete` says that the stream's frames are all made already, so that nothing waits for them.
    """
    making_s = 0.0 if complete else load.sustainable_frames * load.frame_interval_s
    frames = math.ceil((making_s + load.decode_wait_s + load.margin_s) / load.frame_s)
    return min(max(frames, 1), load.plan.max_frames)


def wanted_frames(load: Load, *, lead_s: float, complete: bool) -> int:
    """How many frames a later chunk should wait for: as many as are made while the listener still has audio.

    Growth follows the measured lead, without jumps: 25 frames right after 2 starve the listener (160 ms buffered,
    ~320 ms to make at r = 0.16), and a doubling ramp is only safe to r = 0.5.
    """
    if complete:
        return load.sustainable_frames
    spare_s = lead_s - load.decode_wait_s - load.margin_s
    return max(_frames_within(spare_s, load.frame_interval_s, load.plan.max_frames), load.sustainable_frames)


def enough_below_s(load: Load, frames: int) -> float:
    """The lead below which a later chunk of `frames` is large enough: the inverse of `wanted_frames`, for a quick test.

    `wanted_frames(load, lead_s=lead_s, complete=False) <= frames` exactly where `lead_s` is less than this.
    """
    if frames >= load.plan.max_frames:
        return math.inf
    if frames < load.sustainable_frames:
        return -math.inf
    return load.decode_wait_s + load.margin_s + (frames + 1) * load.frame_interval_s


def affordable_frames(load: Load, *, lead_s: float) -> int:
    """How many frames may be decoded at once before the listener runs dry; what costs less than the margin always may.

    It limits where frames are made faster than they are decoded, such as by a model that makes those of a sentence at
    once.
    """
    largest, context, decode = load.plan.max_frames, math.ceil(load.plan.context_frames), load.costs.decode
    others_s = load.decode_wait_s if load.streams > 1 else 0.0
    available_s = lead_s - load.margin_s - others_s - decode.base_s
    frames = _frames_within(available_s, decode.per_unit_s, largest + context) - context
    return max(frames, _frames_within(load.margin_s, decode.per_unit_s, largest))


def _frames_within(available_s: float, per_frame_s: float, largest: int) -> int:
    """Whole frames that cost no more than the available time, from 0 to `largest`."""
    if available_s <= 0:
        return 0
    return largest if available_s >= per_frame_s * largest else math.floor(available_s / per_frame_s)
