"""Costs are learnt from what was measured, and stay believable whatever is measured."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.scheduling.cost_model import CostFit, CostModel, LinearCost, PipelineCosts

TRUE = LinearCost(0.009, 0.00103)


@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(0, 100)), max_size=60))
def test_a_fitted_cost_is_never_negative(steps: list[tuple[float, float]]) -> None:
    fit = CostFit(TRUE, 16)
    for units, seconds in steps:
        fit.observe(units, seconds)
        assert fit.cost.base_s >= 0
        assert fit.cost.per_unit_s >= 0


@pytest.mark.parametrize("prior", [LinearCost(0.0, 0.0), LinearCost(0.1, 0.0), LinearCost(0.0, 0.01)])
def test_a_wrong_prior_gives_way_to_measurements(prior: LinearCost) -> None:
    rng = np.random.default_rng(0)
    fit = CostFit(prior, 16)
    for units in rng.integers(1, 64, 400):
        fit.observe(float(units), TRUE(float(units)) * rng.normal(1.0, 0.05))
    for units in (1, 20, 60):
        assert fit.cost(units) == pytest.approx(TRUE(units), rel=0.1)


def test_one_batch_size_alone_still_predicts_that_size() -> None:
    fit = CostFit(LinearCost(0.05, 0.001), 16)
    for _ in range(600):
        fit.observe(8.0, 0.020)
    assert fit.cost(8.0) == pytest.approx(0.020, rel=0.05)


def test_a_device_that_slows_down_is_noticed() -> None:
    rng = np.random.default_rng(1)
    fit = CostFit(TRUE, 16)
    for _ in range(400):
        units = float(rng.integers(1, 64))
        fit.observe(units, 2 * TRUE(units))
    assert fit.cost(30) == pytest.approx(2 * TRUE(30), rel=0.05)


def test_a_neighbour_who_has_just_come_is_believed_within_a_few_steps_and_one_slow_step_is_not() -> None:
    fit = CostFit(TRUE, 16)
    for units in range(1, 60):
        fit.observe(units, TRUE(units))
    alone_s = fit.cost(16)
    assert alone_s == pytest.approx(TRUE(16), rel=0.01)
    fit.observe(16, 2 * TRUE(16))
    assert fit.cost(16) < 1.4 * alone_s, "one step may have been held up"
    fit = CostFit(TRUE, 16)
    for units in range(1, 60):
        fit.observe(units, TRUE(units))
    for _ in range(6):
        fit.observe(16, 1.6 * TRUE(16))
    assert fit.cost(16) == pytest.approx(1.6 * TRUE(16), rel=0.1)
    for units in range(1, 300):
        fit.observe(units % 60, 1.6 * TRUE(units % 60))
    assert fit.cost(16) == pytest.approx(1.6 * TRUE(16), rel=0.05), "and never counted twice"


def test_prefill_and_frames_of_a_row_are_learnt_apart_from_the_step() -> None:
    model = CostModel(PipelineCosts(TRUE, LinearCost(0.0, 0.0)), typical_rows=16, typical_frames=100)
    for step in range(400):
        new = step % 2
        model.observe_frames(10, new, 10, TRUE(10) + 0.012 * new)
        model.observe_decode(50, 0.02)
    assert model.costs.prefill_s == pytest.approx(0.012, rel=0.05)
    assert model.costs.frame(10) == pytest.approx(TRUE(10), rel=0.05)
    assert model.costs.frames_per_row == pytest.approx(1.0)
    assert model.costs.decode(50) == pytest.approx(0.02, rel=0.05)


def test_a_launch_that_only_read_prompts_is_no_step() -> None:
    model = CostModel(PipelineCosts(TRUE, LinearCost(0.0, 0.0)), typical_rows=16, typical_frames=100)
    for _ in range(400):
        model.observe_frames(0, 2, 0, 0.02)
        model.observe_frames(10, 0, 10, TRUE(10))
        model.observe_frames(0, 0, 0, 1.0)  # nobody stepped, nothing was read: such as rows that wait for their text
    assert model.costs.frame(10) == pytest.approx(TRUE(10), rel=0.01)
    assert model.costs.prefill_s == pytest.approx(0.01, rel=0.01)
    assert model.costs.frames_per_row == pytest.approx(1.0)


def test_scatter_tells_how_far_steps_miss_their_prediction() -> None:
    rng = np.random.default_rng(2)
    exact, noisy = (CostModel(PipelineCosts(TRUE, TRUE), typical_rows=16, typical_frames=16) for _ in range(2))
    for units in rng.integers(1, 64, 400):
        exact.observe_decode(int(units), TRUE(int(units)))
        noisy.observe_decode(int(units), TRUE(int(units)) + float(rng.choice([-0.01, 0.01])))
    assert exact.costs.scatter_s == pytest.approx(0.0, abs=1e-6)
    assert noisy.costs.scatter_s == pytest.approx(0.01, rel=0.2)


def test_what_a_model_says_of_its_scatter_holds_until_it_is_measured() -> None:
    model = CostModel(PipelineCosts(TRUE, TRUE, scatter_s=0.03), typical_rows=16, typical_frames=16)
    assert model.costs.scatter_s == pytest.approx(0.03)
    for _ in range(200):
        model.observe_decode(16, TRUE(16))
    assert model.costs.scatter_s < 0.001
