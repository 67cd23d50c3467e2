"""Keeping keys and values, or computing them again, gives the same codes; rows do not touch each other."""

import pytest

pytest.importorskip("torch")

import torch

from realtime_tts.engine.models.qwen3_tts.predictor import CodePredictor, Recall
from realtime_tts.engine.models.qwen3_tts.sampling import CodeSampling, Draw, DrawBatch, draw_batch, noise
from tests.engine.models.qwen3_tts.make_checkpoint import HIDDEN
from tests.engine.models.qwen3_tts.tiny import GetTiny, Tiny

ROWS = 5
DRAWS = [Draw(), Draw(0), Draw(0.7, 5, 0.9), Draw(1.5, 0), Draw()]


def batch(rows: slice = slice(None)) -> DrawBatch:
    return draw_batch(DRAWS[rows], 2048, torch.device("cpu"))


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    hidden, first = (torch.randn(ROWS, HIDDEN, generator=generator) for _ in range(2))
    races = [noise(CodeSampling(seed=row).generator(torch.device("cpu")), 2048, draws=15) for row in range(ROWS)]
    return hidden, first, torch.stack(races)


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
