"""A draw equals that of the reference's operations, and each row's draw depends only on that row."""

import math

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.qwen3.sampling import (
    MIN_TEMPERATURE,
    CodeSampling,
    SamplingParams,
    SamplingTable,
    apply_repetition_penalty,
    fill_noise,
    sample,
)
from tests.engine.models.qwen3_tts.tiny import sampling_batch

CPU = torch.device("cpu")
SIZE = 40
PARAMS = st.builds(
    SamplingParams,
    temperature=st.one_of(st.just(0.0), st.floats(MIN_TEMPERATURE, 5)),
    top_k=st.one_of(st.integers(1, 3), st.integers(0, SIZE + 5)),
    top_p=st.floats(0.05, 1.0, exclude_min=True),
)


def scores_of(seed: int, rows: int = 1) -> torch.Tensor:
    return 3 * torch.randn(rows, SIZE, generator=torch.Generator().manual_seed(seed))


def draw(scores: torch.Tensor, params: list[SamplingParams], noise: torch.Tensor) -> torch.Tensor:
    return sample(scores, sampling_batch(params, SIZE), noise)


def noise_of(params: SamplingParams, seed: int, draws: int = 1) -> torch.Tensor:
    noise = torch.empty(draws, SIZE)
    fill_noise(noise, CodeSampling(seed=seed).generator(CPU), params)
    return noise


def reference(scores: torch.Tensor, params: SamplingParams, seed: int) -> int:
    """One row, step by step: temperature, top-k, top-p, `torch.multinomial`."""
    if params.greedy:
        return int(scores.argmax())
    scores = scores / params.temperature
    if 0 < params.top_k < SIZE:
        scores = torch.where(scores < scores.sort(descending=True).values[params.top_k - 1], -math.inf, scores)
    if params.top_p < 1:
        order = scores.argsort()
        for index, before in zip(order[:-1], scores[order].softmax(-1).cumsum(-1), strict=False):
            if before <= 1 - params.top_p:
                scores[index] = -math.inf
    return int(torch.multinomial(scores.softmax(-1), 1, generator=torch.Generator().manual_seed(seed)))


@settings(max_examples=40, deadline=None)
@given(params=PARAMS, seed=st.integers(0, 2**40))
def test_a_draw_equals_the_plain_operations(params: SamplingParams, seed: int) -> None:
    scores = scores_of(seed)
    assert int(draw(scores, [params], noise_of(params, seed))) == reference(scores[0].clone(), params, seed)


@settings(max_examples=30, deadline=None)
@given(params=st.lists(PARAMS, min_size=2, max_size=6), seed=st.integers(0, 2**40))
def test_a_row_is_drawn_as_it_is_alone(params: list[SamplingParams], seed: int) -> None:
    scores = scores_of(seed, len(params))
    noise = torch.cat([noise_of(each, seed + row) for row, each in enumerate(params)])
    together = draw(scores, params, noise)
    alone = [draw(scores[row : row + 1], [each], noise[row : row + 1]) for row, each in enumerate(params)]
    assert together.tolist() == torch.cat(alone).tolist()


def test_draws_have_the_frequencies_of_their_probabilities() -> None:
    scores = scores_of(3)
    count = 20_000
    noise = noise_of(SamplingParams(), 1, draws=count)
    index = torch.zeros(count, dtype=torch.long)
    params = SamplingTable(1, SIZE, CPU, SamplingParams(1.0, 0, 1.0)).batch([0], index)
    found = sample(scores.expand(count, -1), params, noise).bincount(minlength=SIZE) / count
    assert torch.allclose(found, scores[0].softmax(-1), atol=0.015)


def test_several_draws_at_once_equal_single_draws() -> None:
    generator = CodeSampling(seed=4).generator(CPU)
    expected = torch.empty(15, SIZE)
    for row in expected:
        fill_noise(row, generator, SamplingParams())
    assert torch.equal(noise_of(SamplingParams(), 4, draws=15), expected)


def test_a_table_stores_the_parameters_of_each_slot() -> None:
    table = SamplingTable(3, SIZE, CPU)
    assert table.batch([0, 1, 2], slice(0, 3)).tail is None
    assert table.batch([0, 1, 2], slice(0, 3)).greedy is None
    table.set(1, SamplingParams(0.5, 3, 0.75))
    table.set(2, SamplingParams(0))
    found = table.batch([2, 1], torch.tensor([2, 1]))
    assert found.temperature.tolist() == [[1.0], [0.5]]
    assert found.last_kept.tolist() == [[SIZE - 1], [2]]
    assert found.tail is not None
    assert found.tail.tolist() == [[0.0], [0.25]]
    assert found.greedy is not None
    assert found.greedy.tolist() == [[True], [False]]
    assert table.batch([1], slice(1, 2)).max_kept == 4, "rounded to a power of two, so that few sizes are captured"
    assert found.max_kept == SIZE, "limited to the number of scores"


def test_nan_scores_neither_raise_nor_affect_other_rows() -> None:
    scores = scores_of(5, 3)
    scores[1] = math.nan
    for params in (SamplingParams(), SamplingParams(0), SamplingParams(1.0, 0, 0.5)):
        noise = torch.cat([noise_of(params, row) for row in range(3)])
        together = draw(scores, [params] * 3, noise)
        for row in (0, 2):
            assert together[row] == draw(scores[row : row + 1], [params], noise[row : row + 1])[0]
        assert 0 <= int(together[1]) < SIZE


def test_the_best_score_is_always_kept() -> None:
    scores = scores_of(8)
    assert int(draw(scores, [SamplingParams(1.0, 0, 1e-12)], noise_of(SamplingParams(), 1))) == int(scores.argmax())


def test_greedy_selects_the_best_of_nearly_equal_scores() -> None:
    scores = torch.full((1, SIZE), -1.0)
    scores[0, 3] = 0.1
    scores[0, 7] = torch.nextafter(scores[0, 3], torch.tensor(1.0))
    assert int(draw(scores, [SamplingParams(0)], noise_of(SamplingParams(0), 1))) == 7


def test_excluded_scores_are_never_drawn() -> None:
    scores = scores_of(6).expand(500, -1).clone()
    scores[:, : SIZE - 3] = -math.inf
    for params in (SamplingParams(5.0, 0), SamplingParams(5.0, 10), SamplingParams(5.0, 0, 0.99)):
        drawn = draw(scores, [params] * 500, noise_of(SamplingParams(), 1, draws=500))
        assert int(drawn.min()) >= SIZE - 3


@settings(max_examples=30)
@given(seed=st.integers(0, 2**30), penalty=st.floats(0.1, 10))
def test_only_earlier_codes_are_penalised(seed: int, penalty: float) -> None:
    scores = scores_of(seed, 2)
    seen = torch.rand(2, SIZE, generator=torch.Generator().manual_seed(seed)) < 0.5
    changed = apply_repetition_penalty(scores, seen, torch.tensor([penalty, 1.0]))
    assert torch.equal(changed[~seen], scores[~seen])
    assert torch.equal(changed[1], scores[1])
    expected = [s * penalty if s < 0 else s / penalty for s in scores[0][seen[0]].tolist()]
    assert changed[0][seen[0]].tolist() == pytest.approx(expected, rel=1e-5)


def test_invalid_parameters_are_rejected() -> None:
    cases: list[dict[str, float]] = [
        *({"temperature": value} for value in (-1.0, MIN_TEMPERATURE / 2, math.nan, math.inf)),
        {"top_k": -1},
        *({"top_p": value} for value in (0.0, 1.1, math.nan)),
    ]
    for fields in cases:
        with pytest.raises(ValueError, match=next(iter(fields))):
            SamplingParams(**fields)  # type: ignore[arg-type]
    for penalty in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="repetition_penalty"):
            CodeSampling(repetition_penalty=penalty)


def test_any_integer_is_a_seed() -> None:
    for seed in (0, -1, 2**63, 2**64 + 5, 10**40):
        first, second = (torch.rand(4, generator=CodeSampling(seed=seed).generator(CPU)) for _ in range(2))
        assert torch.equal(first, second), seed
