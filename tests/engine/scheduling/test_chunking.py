"""Chunks tile the stream; their sizes follow cost, load and lead."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.scheduling.chunking import (
    DECODE_SHARE,
    ChunkPlan,
    Load,
    affordable_frames,
    enough_below_s,
    initial_frames,
    wanted_frames,
)
from realtime_tts.engine.scheduling.cost_model import LinearCost, PipelineCosts

RAMP = (2, 4, 8, 16, 25)
FRAME_S = 0.08
H200 = PipelineCosts(LinearCost(0.009, 0.00103), LinearCost(0.008, 0.00025), prefill_s=0.012)

plans = st.builds(
    ChunkPlan,
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6).map(tuple),
    left_context_frames=st.integers(0, 30),
    right_context_frames=st.integers(0, 30),
    context_cost=st.floats(0, 1),
)
seconds = st.floats(0, 0.05)
loads = st.builds(
    Load,
    costs=st.builds(
        PipelineCosts,
        frame=st.builds(LinearCost, seconds, seconds),
        decode=st.builds(LinearCost, seconds, seconds),
        prefill_s=seconds,
        frames_per_row=st.floats(1, 200),
    ),
    plan=plans,
    frame_s=st.sampled_from([0.025, 0.08]),
    streams=st.integers(0, 500),
    generating=st.integers(0, 500),
    decode_batch=st.integers(1, 64),
    shared_lane=st.booleans(),
)


def load(streams: int, *, context: int = 25, shared: bool = False, costs: PipelineCosts = H200) -> Load:
    return Load(costs, ChunkPlan(RAMP, context), FRAME_S, streams, streams, decode_batch=4, shared_lane=shared)


@given(plan=plans, arrivals=st.lists(st.integers(0, 12), max_size=40), data=st.data())
def test_chunks_tile_the_stream_every_frame_once_and_in_order(
    plan: ChunkPlan, arrivals: list[int], data: st.DataObject
) -> None:
    decoded = available = 0
    for step in range(len(arrivals) + 1):
        complete = step == len(arrivals)
        available += 0 if complete else arrivals[step]
        while ready := plan.ready(decoded=decoded, available=available, complete=complete):
            frames = data.draw(st.integers(1, ready))
            chunk = plan.cut(decoded=decoded, frames=frames, available=available, complete=complete)
            assert (chunk.start, chunk.frames) == (decoded, frames)
            assert chunk.context_start == max(0, chunk.start - plan.left_context_frames)
            assert chunk.end <= chunk.context_end <= available
            assert complete or chunk.context_end == chunk.end + plan.right_context_frames
            assert chunk.final is (complete and chunk.end == available)
            decoded = chunk.end
    assert decoded == available


@given(plans, st.integers(0, 200))
def test_a_ramp_tiles_a_whole_stream(plan: ChunkPlan, frames: int) -> None:
    chunks = list(plan.ramp(frames))
    assert [chunk.start for chunk in chunks] == [0, *(chunk.end for chunk in chunks)][: len(chunks)]
    assert sum(chunk.frames for chunk in chunks) == frames
    assert all(chunk.frames == plan.sizes[min(i, len(plan.sizes) - 1)] for i, chunk in enumerate(chunks[:-1]))


def test_context_costs_its_share_and_silence_nothing() -> None:
    plan = ChunkPlan(sizes=(20,), left_context_frames=8, right_context_frames=5, context_cost=0.25)
    first, middle, *_ = plan.ramp(60)
    assert plan.cost_frames(first) == 20 + 0.25 * 5
    assert plan.cost_frames(middle) == 20 + 0.25 * 13 == 20 + plan.context_frames
    assert plan.cost_frames(middle, skipped_frames=15) == 5 + 0.25 * 13
    assert plan.cost_frames(middle, skipped_frames=20) == 0.0


def test_cheap_context_lets_the_first_chunk_be_small() -> None:
    costs = PipelineCosts(LinearCost(0.0, 0.0), LinearCost(0.03, 0.008))

    def first(context_cost: float) -> int:
        plan = ChunkPlan((60,), left_context_frames=8, right_context_frames=5, context_cost=context_cost)
        load = Load(costs, plan, 0.025, streams=1, generating=0, decode_batch=1, shared_lane=True)
        return initial_frames(load, complete=True)

    assert first(0.3) < 12 < 16 <= first(1.0)


@pytest.mark.parametrize("cost", [-0.1, 1.1])
def test_context_costs_between_nothing_and_as_much_as_the_chunk(cost: float) -> None:
    with pytest.raises(ValueError, match="context costs"):
        ChunkPlan(sizes=(2,), context_cost=cost)


@given(loads, st.floats(-5, 20), st.booleans())
def test_every_rule_gives_a_size_that_can_be_cut(load: Load, lead_s: float, complete: bool) -> None:
    largest = load.plan.max_frames
    assert 1 <= load.sustainable_frames <= largest
    assert 1 <= initial_frames(load, complete=complete) <= largest
    assert 1 <= wanted_frames(load, lead_s=lead_s, complete=complete) <= largest
    assert affordable_frames(load, lead_s=lead_s) <= largest


@given(loads, st.floats(-5, 20), st.floats(0, 5))
def test_more_lead_never_makes_a_chunk_smaller(load: Load, lead_s: float, more_s: float) -> None:
    later_s = lead_s + more_s
    assert wanted_frames(load, lead_s=lead_s, complete=False) <= wanted_frames(load, lead_s=later_s, complete=False)
    assert affordable_frames(load, lead_s=lead_s) <= affordable_frames(load, lead_s=later_s)


@given(loads, st.floats(-5, 20), st.integers(1, 40))
def test_the_quick_test_of_a_chunk_s_size_is_the_rule_turned_round(load: Load, lead_s: float, frames: int) -> None:
    limit_s = enough_below_s(load, frames)
    if abs(lead_s - limit_s) > 1e-9:  # at the limit itself rounding decides
        assert (wanted_frames(load, lead_s=lead_s, complete=False) <= frames) == (lead_s < limit_s)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("streams", [1, 8, 20])
def test_chunks_of_the_sustainable_size_decode_within_their_playing_time(streams: int, shared: bool) -> None:
    each = load(streams, shared=shared)
    frames, decode = each.sustainable_frames, each.costs.decode
    work_s = streams * (decode.base_s / min(4, streams) + decode.per_unit_s * (frames + 25))
    work_s += frames * each.costs.frame(streams) if shared else 0.0
    assert work_s <= DECODE_SHARE * frames * FRAME_S + 1e-9


def test_a_decoder_that_keeps_state_needs_far_smaller_chunks() -> None:
    assert load(60).sustainable_frames >= 9
    assert load(60, context=0).sustainable_frames <= 3


def test_a_first_chunk_lasts_until_the_next_can_follow() -> None:
    """The defining property: F0 frames play at least as long as F_min frames take to be made and decoded."""
    for streams in (1, 10, 30, 50):
        each = load(streams)
        playing_s = initial_frames(each, complete=False) * FRAME_S
        assert playing_s >= each.sustainable_frames * each.frame_interval_s + each.decode_wait_s or playing_s == 2.0


def test_frames_that_are_all_made_already_need_no_time_to_be_made() -> None:
    assert initial_frames(load(30), complete=True) < initial_frames(load(30), complete=False)


def test_where_decoding_is_the_slow_part_a_chunk_is_no_larger_than_the_lead_allows() -> None:
    front = PipelineCosts(LinearCost(0.0, 0.0), LinearCost(0.014, 0.0036), prefill_s=0.057, frames_per_row=160)
    alone = Load(front, ChunkPlan((12, 16, 24, 40, 60), 8, 5), 0.025, 1, 0, decode_batch=1, shared_lane=True)
    frames = affordable_frames(alone, lead_s=0.3)
    assert 0 < frames < 60
    assert front.decode(frames + 13) <= 0.3 - alone.margin_s + 0.0036
    assert affordable_frames(alone, lead_s=5.0) == 60


def test_sizes_snap_to_the_shapes_that_are_quick() -> None:
    plan = ChunkPlan(RAMP, shapes=(2, 8, 25))
    assert [plan.snapped(n) for n in (1, 2, 7, 8, 24, 25, 99)] == [2, 2, 2, 8, 8, 25, 25]
    assert ChunkPlan(RAMP).snapped(7) == 7


@pytest.mark.parametrize(
    ("busy", "initial"), [(0.0, 2), (0.16, 2), (0.17, 4), (0.49, 4), (0.51, 8), (0.84, 16), (1.0, 16), (9.0, 16)]
)
def test_the_fixed_initial_chunk_follows_the_published_load_table(busy: float, initial: int) -> None:
    assert ChunkPlan(RAMP).size(0, load=busy) == initial
    assert ChunkPlan(RAMP).size(1, load=busy) == 25


def test_a_chunk_waits_for_its_right_context_until_the_stream_is_complete() -> None:
    plan = ChunkPlan(sizes=(4,), right_context_frames=3)
    assert plan.ready(decoded=0, available=6, complete=False) == 3
    assert plan.ready(decoded=0, available=6, complete=True) == 6
    assert plan.ready(decoded=0, available=2, complete=False) == 0


@pytest.mark.parametrize("sizes", [(), (0,), (2, -1)])
def test_impossible_sizes_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="positive"):
        ChunkPlan(sizes)


def test_negative_context_is_refused() -> None:
    with pytest.raises(ValueError, match="context"):
        dataclasses.replace(ChunkPlan(RAMP), left_context_frames=-1)
