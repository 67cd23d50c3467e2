"""Keeping keys and values, or computing them again, gives the same codes; rows do not touch each other."""

import pytest

pytest.importorskip("torch")

import torch

from realtime_tts.engine.models.qwen3_tts.predictor import CodePredictor, Recall, quickest
from realtime_tts.engine.models.qwen3_tts.sampling import CodeSampling, Draw, DrawBatch, refresh
from tests.engine.models.qwen3_tts.make_checkpoint import HIDDEN
from tests.engine.models.qwen3_tts.tiny import GetTiny, Tiny, draw_batch

ROWS = 5
DRAWS = [Draw(), Draw(0), Draw(0.7, 5, 0.9), Draw(1.5, 0), Draw()]


def batch(rows: slice = slice(None)) -> DrawBatch:
    return draw_batch(DRAWS[rows], 2048)


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    hidden, first = (torch.randn(ROWS, HIDDEN, generator=generator) for _ in range(2))
    races = torch.empty(ROWS, 15, 2048)
    for row, race in enumerate(races):
        refresh(race, CodeSampling(seed=row).generator(torch.device("cpu")), Draw())
    return hidden, first, races


def predictor(model: Tiny, recall: Recall = Recall.CACHE, rows: int = ROWS) -> CodePredictor:
    return CodePredictor(model.config.talker_config, model.weights.predictor, rows, recall)


@pytest.mark.parametrize("name", ["custom_voice", "custom_voice_small"])
def test_both_ways_to_recall_give_the_same_codes(tiny: GetTiny, name: str) -> None:
    hidden, first, races = inputs()
    codes, embeddings = predictor(tiny(name)).complete(hidden, first, batch(), races)
    again, other = predictor(tiny(name), Recall.REPEAT).complete(hidden, first, batch(), races)
    assert codes.shape == (ROWS, 15)
    assert torch.equal(codes, again)
    assert torch.equal(embeddings, other)


@pytest.mark.parametrize("recall", Recall)
def test_a_row_is_completed_as_if_alone_and_as_if_first(tiny: GetTiny, recall: Recall) -> None:
    hidden, first, races = inputs()
    shared = predictor(tiny("custom_voice"), recall)
    codes, _ = shared.complete(hidden, first, batch(), races)
    for row in range(ROWS):
        one = slice(row, row + 1)
        alone, _ = shared.complete(hidden[one], first[one], batch(one), races[one])
        assert torch.equal(alone, codes[one])


def test_the_embeddings_are_those_of_the_codes(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
    codes, embeddings = predictor(model).complete(inputs()[0], inputs()[1], batch(), inputs()[2])
    for group, table in enumerate(model.weights.predictor.embeddings):
        assert torch.equal(embeddings[:, group], table[codes[:, group]])


def test_only_the_large_model_has_a_projection(tiny: GetTiny) -> None:
    assert tiny("custom_voice").weights.predictor.projection is not None
    assert tiny("custom_voice_small").weights.predictor.projection is None


def test_a_captured_number_of_rows_is_completed_as_any_other_and_only_with_its_shapes(tiny: GetTiny) -> None:
    hidden, first, races = inputs()
    plain = predictor(tiny("custom_voice")).complete(hidden, first, batch(), races)
    captured = predictor(tiny("custom_voice"))
    captured.capture(ROWS, Draw())
    for found, expected in zip(captured.complete(hidden, first, batch(), races), plain, strict=True):
        assert torch.equal(found, expected)
    usual = draw_batch([Draw()] * ROWS, 2048)
    assert captured.complete(hidden, first, usual, races)[0].shape == (ROWS, 15)
    with pytest.raises(ValueError, match="bucket"):
        captured.complete(hidden, first, usual, races[:, :3])


def test_the_quickest_way_to_recall_is_the_one_whose_frames_took_the_least_time(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
    # By turns: cache, repeat, cache, …; each reads the clock before and after.
    took_s = [9.0, 5.0, 3.0, 4.0, 8.0, 2.5, 7.0, 6.0]
    ticks = iter([tick for seconds in took_s for tick in (0.0, seconds)])
    recall, best_s = quickest(model.config.talker_config, model.weights.predictor, 2, lambda: next(ticks))
    assert recall is Recall.REPEAT
    assert best_s == {Recall.CACHE: 3.0, Recall.REPEAT: 2.5}
