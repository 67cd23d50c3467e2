"""Cost model: costs follow the measured launches, and stay within bounds whatever is measured."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.scheduling.cost_model import CostFit, CostModel, LinearCost, PipelineCosts, UpstreamCosts

TRUE = LinearCost(0.009, 0.00103)


@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(0, 100)), max_size=60))
def test_a_fitted_cost_is_never_negative(steps: list[tuple[float, float]]) -> None:
    fit = CostFit(TRUE, 16)
    for units, seconds in steps:
        fit.observe(units, seconds)
        assert fit.cost.base_s >= 0
        assert fit.cost.per_unit_s >= 0


def test_measurements_replace_a_wrong_prior() -> None:
    for prior in (LinearCost(0.0, 0.0), LinearCost(0.1, 0.0), LinearCost(0.0, 0.01)):
        rng = np.random.default_rng(0)
        fit = CostFit(prior, 16)
        for units in rng.integers(1, 64, 400):
            fit.observe(float(units), TRUE(float(units)) * rng.normal(1.0, 0.05))
        for units in (1, 20, 60):
            assert fit.cost(units) == pytest.approx(TRUE(units), rel=0.1), prior


def test_one_batch_size_alone_still_predicts_that_size() -> None:
    fit = CostFit(LinearCost(0.05, 0.001), 16)
    for _ in range(600):
        fit.observe(8.0, 0.020)
    assert fit.cost(8.0) == pytest.approx(0.020, rel=0.05)


def test_the_fit_follows_a_device_that_slows_down() -> None:
    rng = np.random.default_rng(1)
    fit = CostFit(TRUE, 16)
    for _ in range(400):
        units = float(rng.integers(1, 64))
        fit.observe(units, 2 * TRUE(units))
    assert fit.cost(30) == pytest.approx(2 * TRUE(30), rel=0.05)


def test_a_new_process_on_the_device_raises_the_cost_within_a_few_steps_and_one_slow_step_does_not() -> None:
    fit = CostFit(TRUE, 16)
    for units in range(1, 60):
        fit.observe(units, TRUE(units))
    alone_s = fit.cost(16)
    assert alone_s == pytest.approx(TRUE(16), rel=0.01)
    fit.observe(16, 2 * TRUE(16))
    assert fit.cost(16) < 1.4 * alone_s, "a single step may have been interrupted"
    fit = CostFit(TRUE, 16)
    for units in range(1, 60):
        fit.observe(units, TRUE(units))
    for _ in range(6):
        fit.observe(16, 1.6 * TRUE(16))
    assert fit.cost(16) == pytest.approx(1.6 * TRUE(16), rel=0.1)
    for units in range(1, 300):
        fit.observe(units % 60, 1.6 * TRUE(units % 60))
    assert fit.cost(16) == pytest.approx(1.6 * TRUE(16), rel=0.05), "it is not counted twice"


def test_the_cost_of_a_prompt_and_the_frames_of_a_row_are_learned_apart_from_the_step() -> None:
    model = CostModel(PipelineCosts(TRUE, LinearCost(0.0, 0.0)), typical_rows=16, typical_frames=100)
    for step in range(400):
        new = step % 2
        model.observe_step(0, 10, new, 10, TRUE(10) + 0.012 * new)
        model.observe_decode(50, 0.02)
    assert model.costs.prefill_s == pytest.approx(0.012, rel=0.05)
    assert model.costs.frame(10) == pytest.approx(TRUE(10), rel=0.05)
    assert model.costs.frames_per_row == pytest.approx(1.0)
    assert model.costs.decode(50) == pytest.approx(0.02, rel=0.05)


def test_a_launch_that_only_read_prompts_is_no_step() -> None:
    model = CostModel(PipelineCosts(TRUE, LinearCost(0.0, 0.0)), typical_rows=16, typical_frames=100)
    for _ in range(400):
        model.observe_step(0, 0, 2, 0, 0.02)
        model.observe_step(0, 10, 0, 10, TRUE(10))
        model.observe_step(0, 0, 0, 0, 1.0)  # no row stepped or read: they wait for their text
    assert model.costs.frame(10) == pytest.approx(TRUE(10), rel=0.01)
    assert model.costs.prefill_s == pytest.approx(0.01, rel=0.01)
    assert model.costs.frames_per_row == pytest.approx(1.0)


def test_the_deviation_is_how_far_launches_are_from_their_prediction() -> None:
    rng = np.random.default_rng(2)
    exact, noisy = (CostModel(PipelineCosts(TRUE, TRUE), typical_rows=16, typical_frames=16) for _ in range(2))
    for units in rng.integers(1, 64, 400):
        exact.observe_decode(int(units), TRUE(int(units)))
        noisy.observe_decode(int(units), TRUE(int(units)) + float(rng.choice([-0.01, 0.01])))
    assert exact.costs.deviation_s == pytest.approx(0.0, abs=1e-6)
    assert noisy.costs.deviation_s == pytest.approx(0.01, rel=0.2)


def test_the_deviation_that_a_model_declares_is_used_until_it_is_measured() -> None:
    model = CostModel(PipelineCosts(TRUE, TRUE, deviation_s=0.03), typical_rows=16, typical_frames=16)
    assert model.costs.deviation_s == pytest.approx(0.03)
    for _ in range(200):
        model.observe_decode(16, TRUE(16))
    assert model.costs.deviation_s < 0.001


def test_the_stages_before_the_frame_stage_are_learned_like_it() -> None:
    prior = UpstreamCosts("thinker", LinearCost(0.1, 0.0), prefill_s=0.0, units_per_row=9.0, units_per_frame=9.0)
    model = CostModel(PipelineCosts(TRUE, TRUE, upstream=(prior,)), typical_rows=16, typical_frames=16)
    for number in range(400):
        model.observe_step(0, 1 + number % 20, 0, 4 * (1 + number % 20), TRUE(1 + number % 20))
        model.observe_step(0, 10, 1, 40, TRUE(10) + 0.3)
        model.observe_request([50], 40)
    (thinker,) = model.costs.upstream
    assert thinker.stage == "thinker"
    assert thinker.step(10) == pytest.approx(TRUE(10), rel=0.02)
    assert thinker.prefill_s == pytest.approx(0.3, rel=0.02)
    assert (thinker.units_per_row, thinker.units_per_frame) == pytest.approx((4.0, 1.25))
    assert thinker.seconds_per_frame(10) == pytest.approx(TRUE(10) * 1.25 / 4, rel=0.02)
    assert model.costs.frame == TRUE


def test_the_report_has_the_names_of_readyz() -> None:
    costs = PipelineCosts(TRUE, TRUE, prefill_s=0.01, deviation_s=0.03)
    line = {"base_s": 0.009, "per_unit_s": 0.00103}
    expected = {"frame": line, "decode": line, "prefill_s": 0.01, "frames_per_row": 1.0, "scatter_s": 0.03}
    assert costs.report() == expected
    thinker = UpstreamCosts("thinker", TRUE)
    upstream = {"stage": "thinker", "step": line, "prefill_s": 0.0, "units_per_row": 1.0, "units_per_frame": 1.0}
    with_thinker = PipelineCosts(TRUE, TRUE, 0.01, deviation_s=0.03, upstream=(thinker,))
    assert with_thinker.report() == expected | {"upstream": (upstream,)}
