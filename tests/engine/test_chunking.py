"""Chunks tile the stream, grow without a cliff, and start where the load says."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.chunking import ChunkPlan, next_chunk

RAMP = (2, 4, 8, 16, 25)
plans = st.builds(
    ChunkPlan,
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6).map(tuple),
    left_context_frames=st.integers(0, 30),
    right_context_frames=st.integers(0, 30),
)


@given(plan=plans, arrivals=st.lists(st.integers(0, 12), max_size=40))
def test_chunks_tile_the_stream_every_frame_once_and_in_order(plan: ChunkPlan, arrivals: list[int]) -> None:
    decoded, index, available = 0, 0, 0
    for step in range(len(arrivals) + 1):
        complete = step == len(arrivals)
        available += 0 if complete else arrivals[step]
        while chunk := next_chunk(plan, index=index, decoded=decoded, available=available, complete=complete):
            assert chunk.start == decoded
            assert chunk.start < chunk.end <= available
            assert chunk.context_start == max(0, chunk.start - plan.left_context_frames)
            assert chunk.end <= chunk.context_end <= available
            if not chunk.final:
                assert chunk.frames == plan.size(index) or complete
                assert complete or chunk.context_end == chunk.end + plan.right_context_frames
            decoded, index = chunk.end, index + 1
    assert decoded == available


@given(plan=plans, initial=st.integers(1, 60))
def test_a_client_s_initial_chunk_is_kept_and_what_follows_at_most_doubles(plan: ChunkPlan, initial: int) -> None:
    sizes = plan.with_initial(initial).sizes
    assert sizes[0] == initial
    assert all(after <= 2 * before for before, after in itertools.pairwise(sizes))
    assert sizes[-1] == max(initial, plan.sizes[-1])


@pytest.mark.parametrize(
    ("load", "initial"), [(0.0, 2), (0.16, 2), (0.17, 4), (0.49, 4), (0.51, 8), (0.84, 16), (1.0, 16), (9.0, 16)]
)
def test_the_initial_chunk_follows_the_published_load_table(load: float, initial: int) -> None:
    assert ChunkPlan(RAMP).for_load(load).initial_frames == initial


def test_a_chunk_waits_for_its_right_context_until_the_stream_is_complete() -> None:
    plan = ChunkPlan(sizes=(4,), right_context_frames=3)
    assert next_chunk(plan, index=0, decoded=0, available=6, complete=False) is None
    chunk = next_chunk(plan, index=0, decoded=0, available=7, complete=False)
    assert chunk is not None
    assert (chunk.end, chunk.context_end, chunk.final) == (4, 7, False)


@pytest.mark.parametrize("sizes", [(), (0,), (2, -1)])
def test_impossible_sizes_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="positive"):
        ChunkPlan(sizes)
