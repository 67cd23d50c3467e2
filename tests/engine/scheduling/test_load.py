"""Load: sustainable chunks and frame intervals, from costs, lanes and the number of streams."""

import dataclasses
import itertools

import pytest
from hypothesis import given, settings

from realtime_tts.engine.scheduling.cost_model import LinearCost, UpstreamCosts
from realtime_tts.engine.scheduling.load import DECODE_SHARE, MARGIN_S, SHARED_MARGIN_S, Load, StageLane
from tests.engine.scheduling.loads import FRAME_S, H200, SEPARATE, load, loads

THINKER = UpstreamCosts("thinker", LinearCost(0.02, 0.001), units_per_row=1.0, units_per_frame=0.5)
WITH_THINKER = dataclasses.replace(H200, upstream=(THINKER,))


@given(loads)
@settings(max_examples=50)
def test_derived_values_are_within_bounds(load: Load) -> None:
    assert 1 <= load.sustainable_frames <= load.plan.max_frames
    assert load.frame_interval_s >= 0
    assert load.decode_wait_s >= 0


def test_chunks_of_the_sustainable_size_decode_within_their_playing_time() -> None:
    for streams, shared in itertools.product((1, 8, 20), (False, True)):
        each = load(streams, shared=shared)
        frames, decode = each.sustainable_frames, each.costs.decode
        work_s = streams * (decode.base_s / min(4, streams) + decode.per_unit_s * (frames + 25))
        work_s += frames * each.costs.frame(streams) if shared else 0.0
        assert work_s <= DECODE_SHARE * frames * FRAME_S + 1e-9, (streams, shared)


def test_a_decoder_that_keeps_state_needs_far_smaller_chunks() -> None:
    assert load(60).sustainable_frames >= 9
    assert load(60, context=0).sustainable_frames <= 3


def test_a_shared_lane_needs_a_larger_margin() -> None:
    assert (load(1).margin_s, load(1, shared=True).margin_s) == (MARGIN_S, SHARED_MARGIN_S)
    unsteady = dataclasses.replace(H200, deviation_s=0.01)
    assert load(1, costs=unsteady).margin_s == pytest.approx(MARGIN_S + 0.02)


def test_replicas_share_the_streams() -> None:
    both = (StageLane("talker", 2), StageLane("code2wav", 2))
    for streams in (1, 2, 9, 60):
        half = load((streams + 1) // 2)
        spread = load(streams, lanes=both)
        assert spread.frame_interval_s == half.frame_interval_s, streams
        assert spread.sustainable_frames == half.sustainable_frames, streams


def test_the_slowest_lane_sets_the_frame_interval() -> None:
    talker_s, thinker_s = H200.frame(10), 0.5 * THINKER.step(10)
    apart = load(10, costs=WITH_THINKER, lanes=(StageLane("thinker"), *SEPARATE))
    assert apart.frame_interval_s == pytest.approx(max(talker_s, thinker_s))
    together = load(10, costs=WITH_THINKER, lanes=(StageLane("talker"), *SEPARATE))
    assert together.frame_interval_s == pytest.approx(talker_s + thinker_s)
    idle = dataclasses.replace(together, upstream_rows=(0,))
    assert idle.frame_interval_s == pytest.approx(talker_s)
    slow = dataclasses.replace(H200, upstream=(dataclasses.replace(THINKER, step=LinearCost(0.2, 0.0)),))
    assert load(10, costs=slow, lanes=(StageLane("thinker"), *SEPARATE)).frame_interval_s == pytest.approx(0.1)


def test_a_decoder_that_shares_a_lane_with_the_thinker_alone_is_on_a_shared_lane() -> None:
    each = load(10, costs=WITH_THINKER, lanes=(StageLane("code2wav"), *SEPARATE))
    assert each.shared_lane
    assert each.sustainable_frames >= load(10).sustainable_frames
