"""A draw is the one that the reference's operations make, and each row's depends on itself alone."""

import math

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.qwen3_tts.config import GenerationConfig
from realtime_tts.engine.models.qwen3_tts.sampling import (
    COLDEST,
    CodeSampling,
    Draw,
    DrawTable,
    choose,
    penalised,
    published_sampling,
    refresh,
)
from tests.engine.models.qwen3_tts.tiny import draw_batch

CPU = torch.device("cpu")
SIZE = 40
DRAWS = st.builds(
    Draw,
    temperature=st.one_of(st.just(0.0), st.floats(COLDEST, 5)),
    top_k=st.one_of(st.integers(1, 3), st.integers(0, SIZE + 5)),
    top_p=st.floats(0.05, 1.0, exclude_min=True),
)


def scores_of(seed: int, rows: int = 1) -> torch.Tensor:
    return 3 * torch.randn(rows, SIZE, generator=torch.Generator().manual_seed(seed))


def pick(scores: torch.Tensor, draws: list[Draw], races: torch.Tensor) -> torch.Tensor:
    return choose(scores, draw_batch(draws, SIZE), races)


def race(draw: Draw, seed: int, draws: int = 1) -> torch.Tensor:
    numbers = torch.empty(draws, SIZE)
    refresh(numbers, CodeSampling(seed=seed).generator(CPU), draw)
    return numbers


def plain(scores: torch.Tensor, draw: Draw, seed: int) -> int:
    """One row, step by step: temperature, top-k, top-p, `torch.multinomial`."""
    if draw.greedy:
        return int(scores.argmax())
    scores = scores / draw.temperature
    if 0 < draw.top_k < SIZE:
        scores = torch.where(scores < scores.sort(descending=True).values[draw.top_k - 1], -math.inf, scores)
    if draw.top_p < 1:
        order = scores.argsort()
        for index, before in zip(order[:-1], scores[order].softmax(-1).cumsum(-1), strict=False):
            if before <= 1 - draw.top_p:
                scores[index] = -math.inf
    return int(torch.multinomial(scores.softmax(-1), 1, generator=torch.Generator().manual_seed(seed)))


@settings(deadline=None)
@given(draw=DRAWS, seed=st.integers(0, 2**40))
def test_a_draw_is_that_of_the_plain_operations(draw: Draw, seed: int) -> None:
    scores = scores_of(seed)
    assert int(pick(scores, [draw], race(draw, seed))) == plain(scores[0].clone(), draw, seed)


@settings(deadline=None)
@given(draws=st.lists(DRAWS, min_size=2, max_size=6), seed=st.integers(0, 2**40))
def test_a_row_is_drawn_as_if_alone(draws: list[Draw], seed: int) -> None:
    scores = scores_of(seed, len(draws))
    races = torch.cat([race(draw, seed + row) for row, draw in enumerate(draws)])
    together = pick(scores, draws, races)
    alone = [pick(scores[row : row + 1], [draw], races[row : row + 1]) for row, draw in enumerate(draws)]
    assert together.tolist() == torch.cat(alone).tolist()


def test_draws_come_as_often_as_their_probabilities_say() -> None:
    scores = scores_of(3)
    count = 20_000
    races = race(Draw(), 1, draws=count)
    draws = [Draw(1.0, 0, 1.0)]
    found = pick(scores.expand(count, -1), draws * count, races).bincount(minlength=SIZE) / count
    assert torch.allclose(found, scores[0].softmax(-1), atol=0.015)


def test_more_draws_at_once_are_the_same_as_one_after_the_other() -> None:
    one_by_one = CodeSampling(seed=4).generator(CPU)
    expected = torch.empty(15, SIZE)
    for row in expected:
        refresh(row, one_by_one, Draw())
    assert torch.equal(race(Draw(), 4, draws=15), expected)


def test_a_table_remembers_how_each_of_its_slots_is_drawn() -> None:
    table = DrawTable(3, SIZE, CPU)
    assert table.batch([0, 1, 2], slice(0, 3)).tail is None
    assert table.batch([0, 1, 2], slice(0, 3)).greedy is None
    table.put(1, Draw(0.5, 3, 0.75))
    table.put(2, Draw(0))
    found = table.batch([2, 1], torch.tensor([2, 1]))
    assert found.temperature.tolist() == [[1.0], [0.5]]
    assert found.last.tolist() == [[SIZE - 1], [2]]
    assert found.tail is not None
    assert found.tail.tolist() == [[0.0], [0.25]]
    assert found.greedy is not None
    assert found.greedy.tolist() == [[True], [False]]
    assert table.batch([1], slice(1, 2)).most == 4, "few sizes are captured: powers of two"
    assert found.most == SIZE, "and never more than there are"


def test_what_is_not_a_number_neither_raises_nor_spreads() -> None:
    scores = scores_of(5, 3)
    scores[1] = math.nan
    for draw in (Draw(), Draw(0), Draw(1.0, 0, 0.5)):
        races = torch.cat([race(draw, row) for row in range(3)])
        together = pick(scores, [draw] * 3, races)
        for row in (0, 2):
            assert together[row] == pick(scores[row : row + 1], [draw], races[row : row + 1])[0]
        assert 0 <= int(together[1]) < SIZE


def test_the_best_is_always_left_in() -> None:
    scores = scores_of(8)
    assert int(pick(scores, [Draw(1.0, 0, 1e-12)], race(Draw(), 1))) == int(scores.argmax())


def test_greedy_takes_the_best_even_where_probabilities_are_too_coarse_to_tell() -> None:
    scores = torch.full((1, SIZE), -1.0)
    scores[0, 3] = 0.1
    scores[0, 7] = torch.nextafter(scores[0, 3], torch.tensor(1.0))
    assert int(pick(scores, [Draw(0)], race(Draw(0), 1))) == 7


def test_what_is_excluded_is_never_drawn() -> None:
    scores = scores_of(6).expand(500, -1).clone()
    scores[:, : SIZE - 3] = -math.inf
    for draw in (Draw(5.0, 0), Draw(5.0, 10), Draw(5.0, 0, 0.99)):
        chosen = pick(scores, [draw] * 500, race(Draw(), 1, draws=500))
        assert int(chosen.min()) >= SIZE - 3


@given(seed=st.integers(0, 2**30), penalty=st.floats(0.1, 10))
def test_only_what_was_said_before_is_penalised(seed: int, penalty: float) -> None:
    scores = scores_of(seed, 2)
    seen = torch.rand(2, SIZE, generator=torch.Generator().manual_seed(seed)) < 0.5
    changed = penalised(scores, seen, torch.tensor([penalty, 1.0]))
    assert torch.equal(changed[~seen], scores[~seen])
    assert torch.equal(changed[1], scores[1])
    expected = [s * penalty if s < 0 else s / penalty for s in scores[0][seen[0]].tolist()]
    assert changed[0][seen[0]].tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "field",
    [
        {"temperature": -1.0},
        {"temperature": COLDEST / 2},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_p": math.nan},
    ],
)
def test_values_that_make_no_sense_are_refused(field: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(field))):
        Draw(**field)  # type: ignore[arg-type]


@pytest.mark.parametrize("penalty", [0.0, -1.0, math.nan, math.inf])
def test_a_penalty_that_makes_no_sense_is_refused(penalty: float) -> None:
    with pytest.raises(ValueError, match="repetition_penalty"):
        CodeSampling(repetition_penalty=penalty)


@pytest.mark.parametrize("seed", [0, -1, 2**63, 2**64 + 5, 10**40])
def test_any_integer_is_a_seed(seed: int) -> None:
    first, second = (torch.rand(4, generator=CodeSampling(seed=seed).generator(CPU)) for _ in range(2))
    assert torch.equal(first, second)


def test_the_publishers_switch_makes_it_greedy() -> None:
    sampling = published_sampling(GenerationConfig(do_sample=False, subtalker_dosample=False))
    assert sampling.talker.greedy
    assert sampling.predictor.greedy
    with pytest.raises(ValueError, match="top_p"):
        published_sampling(GenerationConfig(top_p=2))
