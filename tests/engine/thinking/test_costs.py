"""Cost model of a Thinker: capacity and prompt budget follow the measured steps."""

import pytest

from realtime_tts.engine.scheduling.cost_model import LinearCost
from realtime_tts.engine.thinking.costs import LEAST_PROMPT_TOKENS, MAX_CAPACITY, ThinkerCostModel
from realtime_tts.engine.thinking.thinker import ThinkerInfo


def model(step: LinearCost, prompt_token_s: float) -> ThinkerCostModel:
    info = ThinkerInfo(hidden=2, max_positions=1000, step=step, prompt_token_s=prompt_token_s)
    return ThinkerCostModel(info, 0.08)


def test_the_capacity_is_the_most_rows_whose_step_is_within_its_share_of_a_frame() -> None:
    assert model(LinearCost(0.008, 0.0003), 0.0001).capacity == 200  # 8 ms + 200 · 0.3 ms = 68 ms
    assert model(LinearCost(0.2, 0.01), 0.0001).capacity == 1
    assert model(LinearCost(0.001, 0.0), 0.0).capacity == MAX_CAPACITY


def test_the_prompt_budget_is_what_is_left_of_the_share() -> None:
    costs = model(LinearCost(0.008, 0.0003), 0.0001)
    assert costs.prompt_budget(0) == pytest.approx(600, abs=1)
    assert costs.prompt_budget(100) == pytest.approx(300, abs=1)
    assert costs.prompt_budget(1000) == LEAST_PROMPT_TOKENS
    assert model(LinearCost(0.008, 0.0003), 0.0).prompt_budget(1) is None


def test_the_prices_follow_the_measured_steps() -> None:
    costs = model(LinearCost(0.008, 0.0003), 0.0001)
    for rows in (1, 8, 30, 60) * 60:
        costs.observe(rows, 0, 0.016 + 0.0006 * rows)
    for _ in range(200):
        costs.observe(10, 500, 0.016 + 0.006 + 500 * 0.0004)
    assert costs.step(20) == pytest.approx(0.028, rel=0.05)
    assert costs.prompt_token_s == pytest.approx(0.0004, rel=0.05)
