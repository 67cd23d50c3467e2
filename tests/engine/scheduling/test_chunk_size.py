"""Chunk sizes: they follow cost, load and lead."""

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.scheduling.chunk_size import (
    affordable_frames,
    enough_below_s,
    initial_frames,
    wanted_frames,
)
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.scheduling.cost_model import LinearCost, PipelineCosts
from realtime_tts.engine.scheduling.load import Load
from tests.engine.scheduling.loads import FRAME_S, SHARED, load, loads


@given(loads, st.floats(-5, 20), st.booleans())
@settings(max_examples=50)
def test_every_rule_gives_a_possible_size(load: Load, lead_s: float, complete: bool) -> None:
    largest = load.plan.max_frames
    assert 1 <= initial_frames(load, complete=complete) <= largest
    assert 1 <= wanted_frames(load, lead_s=lead_s, complete=complete) <= largest
    assert affordable_frames(load, lead_s=lead_s) <= largest


@given(loads, st.floats(-5, 20), st.floats(0, 5))
@settings(max_examples=50)
def test_more_lead_never_makes_a_chunk_smaller(load: Load, lead_s: float, more_s: float) -> None:
    later_s = lead_s + more_s
    assert wanted_frames(load, lead_s=lead_s, complete=False) <= wanted_frames(load, lead_s=later_s, complete=False)
    assert affordable_frames(load, lead_s=lead_s) <= affordable_frames(load, lead_s=later_s)


@given(loads, st.floats(-5, 20), st.integers(1, 40))
@settings(max_examples=50)
def test_the_quick_test_of_a_size_is_the_inverse_of_the_rule(load: Load, lead_s: float, frames: int) -> None:
    limit_s = enough_below_s(load, frames)
    if abs(lead_s - limit_s) > 1e-9:  # at the limit itself rounding decides
        assert (wanted_frames(load, lead_s=lead_s, complete=False) <= frames) == (lead_s < limit_s)


def test_a_first_chunk_lasts_until_the_next_can_follow() -> None:
    """The defining property: F0 frames play at least as long as F_min frames take to be made and decoded."""
    for streams in (1, 10, 30, 50):
        each = load(streams)
        playing_s = initial_frames(each, complete=False) * FRAME_S
        assert playing_s >= each.sustainable_frames * each.frame_interval_s + each.decode_wait_s or playing_s == 2.0


def test_frames_that_are_all_made_already_need_no_time_to_be_made() -> None:
    assert initial_frames(load(30), complete=True) < initial_frames(load(30), complete=False)


def test_cheap_context_allows_a_small_first_chunk() -> None:
    costs = PipelineCosts(LinearCost(0.0, 0.0), LinearCost(0.03, 0.008))

    def first(context_cost: float) -> int:
        plan = ChunkPlan((60,), left_context_frames=8, right_context_frames=5, context_cost=context_cost)
        load = Load(costs, plan, 0.025, streams=1, generating=0, decode_batch=1, lanes=SHARED)
        return initial_frames(load, complete=True)

    assert first(0.3) < 12 < 16 <= first(1.0)


def test_where_decoding_is_the_slow_part_a_chunk_is_no_larger_than_the_lead_allows() -> None:
    at_once = PipelineCosts(LinearCost(0.0, 0.0), LinearCost(0.014, 0.0036), prefill_s=0.057, frames_per_row=160)
    alone = Load(at_once, ChunkPlan((12, 16, 24, 40, 60), 8, 5), 0.025, 1, 0, decode_batch=1, lanes=SHARED)
    frames = affordable_frames(alone, lead_s=0.3)
    assert 0 < frames < 60
    assert at_once.decode(frames + 13) <= 0.3 - alone.margin_s + 0.0036
    assert affordable_frames(alone, lead_s=5.0) == 60
