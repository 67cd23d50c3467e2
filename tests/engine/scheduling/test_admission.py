"""Admission: as many listeners as the measured costs carry, corrected by the leads of listeners."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.scheduling.admission import MAX_CAPACITY, Admission, Feedback, modelled_capacity
from realtime_tts.engine.scheduling.cost_model import LinearCost, PipelineCosts, UpstreamCosts
from realtime_tts.engine.scheduling.load import Load, StageLane
from tests.engine.scheduling import loads
from tests.engine.scheduling.loads import SEPARATE

STATELESS = PipelineCosts(LinearCost(0.009, 0.00103), LinearCost(0.008, 0.00025), prefill_s=0.012)
GRAPH = PipelineCosts(LinearCost(0.008, 0.00025), LinearCost(0.003, 0.0001), prefill_s=0.005)


def load(costs: PipelineCosts = STATELESS, *, context: int = 25, batch: int = 4, shared: bool = False) -> Load:
    return loads.load(1, costs=costs, context=context, batch=batch, shared=shared)


def test_the_capacity_is_about_that_of_the_design_s_simulation() -> None:
    assert modelled_capacity(load(), 63) == pytest.approx(53, abs=2)
    assert modelled_capacity(load(GRAPH, context=0, batch=16), 63) == pytest.approx(206, abs=8)


def test_a_shared_device_carries_fewer() -> None:
    assert modelled_capacity(load(shared=True), 63) < modelled_capacity(load(), 63)


def test_replicas_multiply_the_capacity() -> None:
    for replicas in (2, 3):
        lanes = (StageLane("talker", replicas), StageLane("code2wav", replicas))
        spread = dataclasses.replace(load(), lanes=lanes)
        assert modelled_capacity(spread, 63) == replicas * modelled_capacity(load(), 63)


def test_every_stage_limits_the_capacity() -> None:
    """A Thinker with 50 ms a step, of which a frame needs one, carries no listener more than its share allows."""
    alone = modelled_capacity(load(), 63)
    for base_s, per_row_s in ((0.001, 0.0001), (0.05, 0.001), (0.05, 0.02)):
        thinker = UpstreamCosts("thinker", LinearCost(base_s, per_row_s))
        costs = dataclasses.replace(STATELESS, upstream=(thinker,))
        own = modelled_capacity(loads.load(1, costs=costs, lanes=(StageLane("thinker"), *SEPARATE)), 63)
        shared = modelled_capacity(loads.load(1, costs=costs, lanes=(StageLane("talker"), *SEPARATE)), 63)
        limit = max(1, int((0.92 * 0.08 - base_s) / per_row_s))
        assert own <= min(alone, limit), (base_s, per_row_s)
        assert own >= min(alone - 1, limit), (base_s, per_row_s)
        assert shared <= own, (base_s, per_row_s)


@given(factor=st.floats(1.0, 20.0), shared=st.booleans())
def test_a_slower_device_never_carries_more_and_always_at_least_one(factor: float, shared: bool) -> None:
    slower = PipelineCosts(
        LinearCost(0.009 * factor, 0.00103 * factor),
        LinearCost(0.008 * factor, 0.00025 * factor),
        prefill_s=0.012 * factor,
    )
    assert 1 <= modelled_capacity(load(slower, shared=shared), 63) <= modelled_capacity(load(shared=shared), 63)


def test_a_device_without_costs_has_the_maximal_capacity() -> None:
    free = PipelineCosts(LinearCost(0.0, 0.0), LinearCost(0.0, 0.0))
    assert modelled_capacity(load(free), 63) == MAX_CAPACITY


def test_a_listener_who_would_wait_too_long_is_refused_with_the_expected_wait() -> None:
    admission = Admission(max_wait_s=0.5)
    admission.tick(load(), [], now_s=0.0)
    assert admission.refusal(0, 40, now_s=0.0) is None
    refusal = admission.refusal(100, 40, now_s=0.0)
    assert refusal is not None
    assert refusal.retry_after_s == pytest.approx(101 * 5 / 40, abs=0.1)
    few = admission.refusal(0, 4, now_s=0.0)
    assert few is not None
    assert few.retry_after_s == pytest.approx(5 / 4, abs=0.1)
    assert Admission(max_wait_s=None).refusal(10_000, 40, now_s=0.0) is None


def test_capacity_is_calculated_once_a_tick() -> None:
    admission = Admission(max_wait_s=0.5)
    assert admission.due(7.0)
    admission.tick(load(), [], now_s=7.0)
    assert not admission.due(7.2)
    assert admission.due(7.25)


def test_longer_requests_cost_less_for_their_first_and_last_chunks() -> None:
    admission = Admission(max_wait_s=0.5)
    admission.tick(load(shared=True), [], now_s=0.0)
    before = admission.capacity
    for _ in range(100):
        admission.observe_request(12.0)
    admission.tick(load(shared=True), [], now_s=1.0)
    assert admission.capacity >= before


def test_listeners_who_run_dry_lower_the_capacity_and_much_lead_restores_it() -> None:
    feedback = Feedback()
    for tick in range(3):
        feedback.observe([0.01] * 20, load(), capacity=50, now_s=tick * 0.25)
    assert feedback.factor == pytest.approx(0.95)
    for tick in range(100):
        feedback.observe([2.0] * 20, load(), capacity=50, now_s=1 + tick * 0.25)
    assert 0.95 < feedback.factor <= 1.0


def test_one_late_listener_among_many_changes_nothing() -> None:
    feedback = Feedback()
    for tick in range(20):
        feedback.observe([0.5] * 59 + [-1.0], load(), capacity=50, now_s=tick * 0.25)
    assert feedback.factor == 1.0


@given(st.lists(st.lists(st.floats(-5, 5), max_size=8), max_size=60))
def test_the_correction_stays_within_bounds(ticks: list[list[float]]) -> None:
    feedback = Feedback()
    for number, leads_s in enumerate(ticks):
        feedback.observe(leads_s, load(), capacity=10, now_s=number * 0.25)
        assert Feedback.LEAST <= feedback.factor <= 1.0
