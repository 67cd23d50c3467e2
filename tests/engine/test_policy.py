"""Who is served next: the listener who runs dry first."""

from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.policy import Candidate, Snapshot, StageView, playout_deadline_first


def stage(name: str, deadlines: list[float], *, lane: str = "gpu", max_batch: int = 64) -> StageView:
    rows = tuple(Candidate(f"{name}-{i}", i, deadline) for i, deadline in enumerate(deadlines))
    return StageView(name, lane, max_batch, rows)


@given(
    talker=st.lists(st.floats(0, 100), max_size=12),
    code2wav=st.lists(st.floats(0, 100), max_size=12),
    max_batch=st.integers(1, 5),
)
def test_nobody_in_a_batch_is_less_urgent_than_anyone_left_out(
    talker: list[float], code2wav: list[float], max_batch: int
) -> None:
    views = (stage("talker", talker, max_batch=max_batch), stage("code2wav", code2wav, max_batch=max_batch))
    batch = playout_deadline_first(Snapshot(0.0, views), "gpu")
    if not talker and not code2wav:
        assert batch is None
        return
    assert batch is not None
    chosen = next(view for view in views if view.name == batch.stage)
    left_out = set(chosen.candidates) - set(batch.rows)
    assert len(batch.rows) == min(max_batch, len(chosen.candidates))
    assert all(row.deadline_s <= other.deadline_s for row in batch.rows for other in left_out)
    assert min(row.deadline_s for row in batch.rows) == min(talker + code2wav)


def test_on_a_tie_the_first_come_is_served_first() -> None:
    batch = playout_deadline_first(Snapshot(0.0, (stage("talker", [5.0, 5.0, 5.0], max_batch=2),)), "gpu")
    assert batch is not None
    assert [row.sequence for row in batch.rows] == [0, 1]


def test_on_a_tie_between_stages_the_later_stage_makes_sound_first() -> None:
    batch = playout_deadline_first(Snapshot(0.0, (stage("talker", [5.0]), stage("code2wav", [5.0]))), "gpu")
    assert batch is not None
    assert batch.stage == "code2wav"


def test_a_lane_runs_only_its_own_stages() -> None:
    views = (stage("talker", [1.0], lane="gpu0"), stage("code2wav", [], lane="gpu1"))
    assert playout_deadline_first(Snapshot(0.0, views), "gpu1") is None
