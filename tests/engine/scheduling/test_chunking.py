"""Chunk boundaries: chunks cover the stream, every frame once and in order."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.scheduling.chunking import ChunkPlan
from tests.engine.scheduling.loads import RAMP, plans


@given(plan=plans, arrivals=st.lists(st.integers(0, 12), max_size=40), data=st.data())
@settings(max_examples=50)
def test_chunks_cover_the_stream_every_frame_once_and_in_order(
    plan: ChunkPlan, arrivals: list[int], data: st.DataObject
) -> None:
    decoded = available = 0
    for step in range(len(arrivals) + 1):
        complete = step == len(arrivals)
        available += 0 if complete else arrivals[step]
        while ready := plan.ready(decoded=decoded, available=available, complete=complete):
            frames = data.draw(st.integers(1, ready))
            chunk = plan.chunk(decoded=decoded, frames=frames, available=available, complete=complete)
            assert (chunk.start, chunk.frames) == (decoded, frames)
            assert chunk.context_start == max(0, chunk.start - plan.left_context_frames)
            assert chunk.end <= chunk.context_end <= available
            assert complete or chunk.context_end == chunk.end + plan.right_context_frames
            assert chunk.final is (complete and chunk.end == available)
            decoded = chunk.end
    assert decoded == available


@given(plans, st.integers(0, 200))
@settings(max_examples=50)
def test_a_ramp_covers_a_whole_stream(plan: ChunkPlan, frames: int) -> None:
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


def test_sizes_snap_to_the_shapes_that_are_quick() -> None:
    plan = ChunkPlan(RAMP, shapes=(2, 8, 25))
    assert [plan.snapped(n) for n in (1, 2, 7, 8, 24, 25, 99)] == [2, 2, 2, 8, 8, 25, 25]
    assert ChunkPlan(RAMP).snapped(7) == 7


def test_the_fixed_initial_chunk_follows_the_documented_load_table() -> None:
    table = {0.0: 2, 0.16: 2, 0.17: 4, 0.49: 4, 0.51: 8, 0.84: 16, 1.0: 16, 9.0: 16}
    assert {load: ChunkPlan(RAMP).size(0, load=load) for load in table} == table
    assert {ChunkPlan(RAMP).size(1, load=load) for load in table} == {25}


def test_a_chunk_waits_for_its_right_context_until_the_stream_is_complete() -> None:
    plan = ChunkPlan(sizes=(4,), right_context_frames=3)
    assert plan.ready(decoded=0, available=6, complete=False) == 3
    assert plan.ready(decoded=0, available=6, complete=True) == 6
    assert plan.ready(decoded=0, available=2, complete=False) == 0


def test_impossible_plans_are_refused() -> None:
    for sizes in ((), (0,), (2, -1)):
        with pytest.raises(ValueError, match="positive"):
            ChunkPlan(sizes)
    with pytest.raises(ValueError, match="context"):
        dataclasses.replace(ChunkPlan(RAMP), left_context_frames=-1)
    for cost in (-0.1, 1.1):
        with pytest.raises(ValueError, match="context_cost"):
            ChunkPlan(sizes=(2,), context_cost=cost)
