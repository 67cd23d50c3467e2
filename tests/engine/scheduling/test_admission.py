"""Admission: as many listeners as the measured costs carry, corrected by the leads of listeners."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.scheduling.admission import (
    MAX_CAPACITY,
    Admission,
    Feedback,
    QueueRate,
    modelled_capacity,
    modelled_interval_s,
)
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


# -- Capacity that listeners keep, and queued requests -----------------------------------------------------------------


def test_capacity_that_listeners_keep_for_their_next_utterance_does_not_count_as_becoming_free() -> None:
    admission = Admission(max_wait_s=0.5)
    admission.tick(load(), [], now_s=0.0)
    assert admission.refusal(0, 16, now_s=0.0) is None
    for number in range(200):
        admission.observe_admission(new=number % 4 == 0)
    refused = admission.refusal(0, 16, now_s=0.0)
    assert refused is not None
    assert refused.retry_after_s == pytest.approx(4 * 5 / 16, rel=0.3)


def test_the_modelled_interval_is_that_of_the_device() -> None:
    """At its capacity a device makes speech at the rate at which it is played; with one listener it is faster."""
    capacity = modelled_capacity(load(), 63)
    assert modelled_interval_s(load(), capacity, 63) == pytest.approx(0.92 * 63 * 0.08 / capacity, rel=0.1)
    assert modelled_interval_s(load(), 1, 63) < 0.2 * 63 * 0.08


def test_the_time_to_retry_follows_from_how_fast_queued_requests_were_admitted() -> None:
    rate = QueueRate(max_queued=4)
    assert rate.retry_after_s(3, 0.5, now_s=0.0) == pytest.approx(2.0), "as modelled, before anything is measured"
    rate = QueueRate(max_queued=4)
    rate.on_waiting(4, 0.0)
    for number in range(1, 20):
        rate.on_admitted(number * 2.0)
        rate.on_waiting(4, number * 2.0)
    assert rate.retry_after_s(3, 0.5, now_s=38.0) == pytest.approx(8.0)
    assert rate.retry_after_s(3, 0.5, now_s=38.0) == pytest.approx(10.0), "the next one comes later"


def test_a_present_wait_that_is_longer_than_usual_counts() -> None:
    rate = QueueRate(max_queued=4)
    rate.on_waiting(1, 100.0)
    assert rate.retry_after_s(0, 0.5, now_s=115.0) == pytest.approx(15.0)
    rate.on_waiting(0, 116.0)
    rate.on_waiting(1, 500.0)
    assert rate.retry_after_s(0, 0.5, now_s=501.0) == pytest.approx(1.0), "time without a queue does not count"


@given(st.lists(st.tuples(st.integers(0, 64), st.floats(0.0, 30.0)), max_size=100), st.integers(0, 8))
@settings(max_examples=50)
def test_no_time_to_retry_is_longer_than_clients_accept(refusals: list[tuple[int, float]], max_queued: int) -> None:
    rate, now_s = QueueRate(max_queued), 0.0
    for queued, later_s in refusals:
        now_s += later_s
        rate.on_waiting(queued, now_s)
        assert 0.0 <= rate.retry_after_s(queued, 1.0, now_s) <= QueueRate.MAX_RETRY_S + 1e-6
