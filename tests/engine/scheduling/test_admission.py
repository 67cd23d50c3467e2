"""How many listeners may start: as many as the measured costs carry, corrected by what listeners have."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.scheduling.admission import MAX_PLACES, Admission, Feedback, capacity
from realtime_tts.engine.scheduling.chunking import ChunkPlan, Load
from realtime_tts.engine.scheduling.cost_model import LinearCost, PipelineCosts

PLAN = ChunkPlan((2, 4, 8, 16, 25), left_context_frames=25)
STATELESS = PipelineCosts(LinearCost(0.009, 0.00103), LinearCost(0.008, 0.00025), prefill_s=0.012)
GRAPH = PipelineCosts(LinearCost(0.008, 0.00025), LinearCost(0.003, 0.0001), prefill_s=0.005)


def load(costs: PipelineCosts = STATELESS, *, context: int = 25, batch: int = 4, shared: bool = False) -> Load:
    plan = dataclasses.replace(PLAN, left_context_frames=context)
    return Load(costs, plan, 0.08, 1, 1, decode_batch=batch, shared_lane=shared)


def test_the_published_costs_carry_about_as_many_as_the_design_s_simulation_found() -> None:
    assert capacity(load(), 63) == pytest.approx(53, abs=2)
    assert capacity(load(GRAPH, context=0, batch=16), 63) == pytest.approx(206, abs=8)


def test_a_shared_device_carries_fewer() -> None:
    assert capacity(load(shared=True), 63) < capacity(load(), 63)


@given(factor=st.floats(1.0, 20.0), shared=st.booleans())
def test_a_slower_device_never_carries_more_and_always_at_least_one(factor: float, shared: bool) -> None:
    slower = PipelineCosts(
        LinearCost(0.009 * factor, 0.00103 * factor),
        LinearCost(0.008 * factor, 0.00025 * factor),
        prefill_s=0.012 * factor,
    )
    assert 1 <= capacity(load(slower, shared=shared), 63) <= capacity(load(shared=shared), 63)


def test_a_device_that_costs_nothing_has_no_limit_but_ours() -> None:
    free = PipelineCosts(LinearCost(0.0, 0.0), LinearCost(0.0, 0.0))
    assert capacity(load(free), 63) == MAX_PLACES


def test_whoever_would_wait_too_long_is_refused_with_the_expected_wait() -> None:
    admission = Admission(max_wait_s=0.5)
    admission.tick(load(), [], now_s=0.0)
    assert admission.refusal(0, 40) is None
    refusal = admission.refusal(100, 40)
    assert refusal is not None
    assert refusal.retry_after_s == pytest.approx(101 * 5 / 40, abs=0.1)
    few = admission.refusal(0, 4)
    assert few is not None
    assert few.retry_after_s == pytest.approx(5 / 4, abs=0.1)
    assert Admission(max_wait_s=None).refusal(10_000, 40) is None


def test_places_are_worked_out_once_a_tick() -> None:
    admission = Admission(max_wait_s=0.5)
    assert admission.due(7.0)
    admission.tick(load(), [], now_s=7.0)
    assert not admission.due(7.2)
    assert admission.due(7.25)


def test_longer_requests_waste_less_on_their_beginnings_and_ends() -> None:
    admission = Admission(max_wait_s=0.5)
    admission.tick(load(shared=True), [], now_s=0.0)
    before = admission.places
    for _ in range(100):
        admission.observe_request(12.0)
    admission.tick(load(shared=True), [], now_s=1.0)
    assert admission.places >= before


def test_listeners_who_run_dry_take_places_away_and_much_lead_gives_them_back() -> None:
    feedback = Feedback()
    for tick in range(3):
        feedback.observe([0.01] * 20, load(), places=50, now_s=tick * 0.25)
    assert feedback.factor == pytest.approx(0.95)
    for tick in range(100):
        feedback.observe([2.0] * 20, load(), places=50, now_s=1 + tick * 0.25)
    assert 0.95 < feedback.factor <= 1.0


def test_one_who_is_late_among_many_changes_nothing() -> None:
    feedback = Feedback()
    for tick in range(20):
        feedback.observe([0.5] * 59 + [-1.0], load(), places=50, now_s=tick * 0.25)
    assert feedback.factor == 1.0


@given(st.lists(st.lists(st.floats(-5, 5), max_size=8), max_size=60))
def test_the_correction_stays_within_bounds(ticks: list[list[float]]) -> None:
    feedback = Feedback()
    for number, leads_s in enumerate(ticks):
        feedback.observe(leads_s, load(), places=10, now_s=number * 0.25)
        assert Feedback.LEAST <= feedback.factor <= 1.0
