"""Policies: the listener who runs dry first is served first, in chunks that keep all listeners continuous."""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.scheduling.cost_model import LinearCost, PipelineCosts
from realtime_tts.engine.scheduling.load import Load, StageLane
from realtime_tts.engine.scheduling.policy import (
    SCHEDULERS,
    Batch,
    Candidate,
    Snapshot,
    StageView,
    fixed_sizes,
    playout_deadline,
)

COSTS = PipelineCosts(LinearCost(0.009, 0.00103), LinearCost(0.008, 0.00025))
PLAN = ChunkPlan((2, 4, 8, 16, 25), left_context_frames=25)


def snapshot(
    decode: list[Candidate], frame: list[Candidate], *, shared: bool = False, decode_batch: int = 4, streams: int = 20
) -> Snapshot:
    lane = "gpu" if shared else "code2wav"
    load = Load(COSTS, PLAN, 0.08, streams, streams, decode_batch, lanes=(StageLane("gpu"), StageLane(lane)))
    stages = (StageView("talker", "gpu", 64, False, frame), StageView("code2wav", lane, decode_batch, True, decode))
    return Snapshot(100.0, load, stages)


def row(
    number: int, lead_s: float, pending: int = 25, *, chunks: int = 1, complete: bool = False, served_s: float = 0.0
) -> Candidate:
    return Candidate(100.0 + lead_s, number, f"r{number}", pending, complete, chunks, served_s)


rows = st.lists(
    st.tuples(st.floats(-1, 10), st.integers(1, 40), st.integers(0, 3), st.booleans(), st.floats(0, 100)), max_size=20
).map(
    lambda all_: [row(i, lead, p, chunks=c, complete=done, served_s=s) for i, (lead, p, c, done, s) in enumerate(all_)]
)


@given(rows, rows, st.booleans(), st.sampled_from(sorted(SCHEDULERS)))
@settings(max_examples=60)
def test_every_policy_launches_only_what_is_ready_and_fits(
    decode: list[Candidate], frame: list[Candidate], shared: bool, name: str
) -> None:
    each = snapshot(decode, frame, shared=shared)
    pending = {candidate.request_id: candidate.pending_frames for candidate in decode}
    for lane in ("gpu", "code2wav"):
        batch = SCHEDULERS[name].policy(each, lane)
        if batch is None:
            continue
        stage = next(view for view in each.stages if view.name == batch.stage)
        assert stage.lane == lane
        assert 0 < len(batch.rows) <= stage.max_batch
        ids = [chosen.request_id for chosen in batch.rows]
        assert len(set(ids)) == len(ids)
        assert set(ids) <= {candidate.request_id for candidate in stage.candidates}
        if stage.decodes:
            assert all(1 <= chosen.frames <= min(25, pending[chosen.request_id]) for chosen in batch.rows)


@given(rows, rows, st.sampled_from(sorted(SCHEDULERS)))
@settings(max_examples=60)
def test_no_policy_leaves_a_lane_with_work_idle_for_ever(
    decode: list[Candidate], frame: list[Candidate], name: str
) -> None:
    """With complete streams there is nothing to wait for: all pending frames must be decoded, also without a Talker."""
    complete = [candidate._replace(complete=True) for candidate in decode]
    batch = SCHEDULERS[name].policy(snapshot(complete, [], shared=False), "code2wav")
    assert (batch is None) == (not complete)
    assert (SCHEDULERS[name].policy(snapshot([], frame), "gpu") is None) == (not frame)


def names(batch: Batch | None) -> list[str]:
    assert batch is not None
    return [chosen.request_id for chosen in batch.rows]


@given(rows.filter(bool))
@settings(max_examples=50)
def test_our_policy_leaves_out_no_row_more_urgent_than_those_it_serves(decode: list[Candidate]) -> None:
    decode = [candidate._replace(complete=True) for candidate in decode]
    chosen = set(names(playout_deadline(snapshot(decode, []), "code2wav")))
    served = [candidate for candidate in decode if candidate.request_id in chosen]
    left = [candidate for candidate in decode if candidate.request_id not in chosen]
    assert len(served) == min(4, len(decode))
    assert all(one.deadline_s <= other.deadline_s for one in served for other in left)


def test_on_a_tie_the_first_submitted_is_served_first() -> None:
    assert names(playout_deadline(snapshot([row(i, 1.0) for i in (3, 1, 2, 5, 4)], []), "code2wav")) == [
        "r1",
        "r2",
        "r3",
        "r4",
    ]


def test_the_talker_steps_all_admitted_requests() -> None:
    assert len(names(playout_deadline(snapshot([], [row(i, i) for i in range(30)]), "gpu"))) == 30


def test_a_stream_with_much_lead_waits_for_a_larger_chunk() -> None:
    assert playout_deadline(snapshot([row(0, 3.0, pending=12)], []), "code2wav") is None
    assert names(playout_deadline(snapshot([row(0, 0.3, pending=12)], []), "code2wav")) == ["r0"]


def test_a_client_s_choice_of_the_first_chunk_is_respected() -> None:
    chosen = row(0, 0.2, pending=1, chunks=0)._replace(initial_frames=1)
    assert names(playout_deadline(snapshot([chosen], []), "code2wav")) == ["r0"]
    assert playout_deadline(snapshot([chosen._replace(initial_frames=9)], []), "code2wav") is None


# -- A shared device ---------------------------------------------------------------------------------------------------


def stage_of(each: Snapshot) -> str:
    batch = playout_deadline(each, "gpu")
    assert batch is not None
    return batch.stage


def test_a_decode_that_can_wait_lets_the_talker_step_first() -> None:
    assert stage_of(snapshot([row(0, 5.0)], [row(1, 5.0)], shared=True)) == "talker"


def test_a_decode_has_priority_if_urgent_if_first_of_its_stream_or_with_a_full_batch() -> None:
    cases = {
        "urgent": [row(0, 0.05)],
        "first of a stream": [row(0, 5.0, chunks=0)],
        "full batch": [row(i, 5.0) for i in range(4)],
    }
    for case, decode in cases.items():
        assert stage_of(snapshot(decode, [row(9, 5.0)], shared=True)) == "code2wav", case


def test_an_idle_talker_leaves_the_device_to_the_decoder() -> None:
    assert stage_of(snapshot([row(0, 5.0)], [], shared=True)) == "code2wav"


def test_a_batch_on_a_shared_device_is_filled_up_with_streams_that_have_a_few_frames() -> None:
    decode = [row(0, 0.05), row(1, 3.0, pending=5), row(2, 3.0, pending=3)]
    assert names(playout_deadline(snapshot(decode, [row(9, 5.0)], shared=True), "gpu")) == ["r0", "r1"]


# -- Policies for comparison -------------------------------------------------------------------------------------------


def test_round_robin_serves_the_least_recently_served_stream_for_any_lead() -> None:
    decode = [row(0, 0.0, served_s=9.0), *(row(i, 9.0, served_s=float(i)) for i in range(1, 5))]
    assert names(SCHEDULERS["policy_c"].policy(snapshot(decode, []), "code2wav")) == ["r1", "r2", "r3", "r4"]


def test_edf_serves_the_earliest_deadline() -> None:
    decode = [row(i, 5.0 - i) for i in range(6)]
    assert names(SCHEDULERS["edf_only"].policy(snapshot(decode, []), "code2wav")) == ["r5", "r4", "r3", "r2"]


def test_a_bounded_window_serves_only_the_first_submitted() -> None:
    decode = [row(0, 5.0, pending=3), *(row(i, 0.0) for i in range(1, 9))]
    assert names(fixed_sizes(window=2)(snapshot(decode, []), "code2wav")) == ["r1"]


def test_fixed_sizes_wait_for_their_size() -> None:
    policy = fixed_sizes()
    assert policy(snapshot([row(0, 0.0, pending=24)], []), "code2wav") is None
    first = row(0, 0.0, pending=4, chunks=0)
    batch = policy(snapshot([first], [], streams=20), "code2wav")
    assert batch is not None
    assert batch.rows[0].frames == 4
    assert SCHEDULERS["round_robin"].policy(snapshot([first], []), "code2wav") is None


@given(rows, st.booleans())
@settings(max_examples=50)
def test_where_only_some_shapes_are_quick_every_chunk_but_the_last_of_a_stream_has_one(
    decode: list[Candidate], shared: bool
) -> None:
    each = snapshot(decode, [], shared=shared)
    plan = dataclasses.replace(PLAN, shapes=(1, 4, 16))
    each = dataclasses.replace(each, load=dataclasses.replace(each.load, plan=plan))
    batch = playout_deadline(each, "gpu" if shared else "code2wav")
    for chosen in batch.rows if batch else ():
        assert chosen.frames in plan.shapes or (chosen.complete and chosen.frames == chosen.pending_frames)
