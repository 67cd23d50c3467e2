"""A mixture of experts equals its formula, token by token, whichever method computes it."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch

from realtime_tts.engine.models.qwen3.feed_forward import Dense, Experts, ExpertsMethod, SharedExpert, default_method
from realtime_tts.engine.models.qwen3.linear import PackedLinear

HIDDEN, INNER, COUNT, PER_TOKEN = 16, 8, 5, 2


def values(*shape: int, seed: int) -> torch.Tensor:
    drawn: torch.Tensor = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) / shape[-1] ** 0.5
    return drawn


ROUTER, GATE_UP = values(COUNT, HIDDEN, seed=1), values(COUNT, 2 * INNER, HIDDEN, seed=2)
DOWN = values(COUNT, HIDDEN, INNER, seed=3)
SHARED_GATE_UP, SHARED_DOWN, SHARED_GATE = values(24, HIDDEN, seed=4), values(HIDDEN, 12, seed=5), values(1, 16, seed=6)
SHARED = SharedExpert(Dense(PackedLinear(SHARED_GATE_UP), PackedLinear(SHARED_DOWN)), SHARED_GATE)


def swiglu(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    gate, up = (gate_up @ x).chunk(2)
    return down @ (gate * gate.sigmoid() * up)


def formula(x: torch.Tensor, *, renormalised: bool, shared: bool) -> torch.Tensor:
    probabilities = (ROUTER @ x).softmax(0)
    best = probabilities.argsort(descending=True)[:PER_TOKEN]
    scale = probabilities[best].sum() if renormalised else torch.tensor(1.0)
    made = torch.stack([probabilities[e] / scale * swiglu(x, GATE_UP[e], DOWN[e]) for e in best]).sum(0)
    if shared:
        made = made + (SHARED_GATE @ x).sigmoid() * swiglu(x, SHARED_GATE_UP, SHARED_DOWN)
    return made


def test_experts_equal_the_formula_for_any_number_of_rows_and_by_both_methods() -> None:
    for rows, steps in ((1, 1), (3, 4), (17, 1)):
        x = values(rows, steps, HIDDEN, seed=rows)
        for renormalised in (False, True):
            for shared in (None, SHARED):
                expected = torch.stack([formula(t, renormalised=renormalised, shared=shared is not None) for t in x[0]])
                experts = Experts(ROUTER, GATE_UP, DOWN, PER_TOKEN, renormalised, shared, ExpertsMethod.LOOP)
                looped, grouped = experts(x), replace(experts, method=ExpertsMethod.GROUPED)(x)
                case = (rows, steps, renormalised, shared is not None)
                assert torch.allclose(looped[0], expected, atol=1e-5), case
                assert torch.allclose(looped, grouped, atol=1e-5), case


@pytest.mark.skipif(torch.cuda.is_available(), reason="depends on the GPU")
def test_the_method_is_the_fastest_and_on_a_gpu_one_that_a_cuda_graph_can_capture() -> None:
    cuda, cpu = torch.device("cuda"), torch.device("cpu")
    assert default_method(cuda, torch.bfloat16) is ExpertsMethod.GROUPED
    assert default_method(cuda, torch.float16) is ExpertsMethod.LOOP
    assert default_method(cpu, torch.bfloat16) is ExpertsMethod.LOOP
    assert default_method(cpu, torch.float32) is ExpertsMethod.GROUPED
