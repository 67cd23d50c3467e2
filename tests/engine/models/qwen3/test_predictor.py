"""Both KV modes draw the same codes, and rows are independent."""

import pytest

pytest.importorskip("torch")

import torch

from realtime_tts.engine.models.qwen3.predictor import CodePredictor, KVMode, fastest_kv_mode
from realtime_tts.engine.models.qwen3.sampling import CodeSampling, SamplingBatch, SamplingParams, fill_noise
from tests.engine.models.qwen3_tts.make_checkpoint import HIDDEN
from tests.engine.models.qwen3_tts.tiny import GetTiny, Tiny, sampling_batch

PARAMS = [
    *(SamplingParams(), SamplingParams(0), SamplingParams(0.7, 5, 0.9)),
    *(SamplingParams(1.5, 0), SamplingParams()),
]
ROWS = len(PARAMS)


def batch(rows: slice = slice(None)) -> SamplingBatch:
    return sampling_batch(PARAMS[rows], 2048)


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    hidden, first = (torch.randn(ROWS, HIDDEN, generator=generator) for _ in range(2))
    noise = torch.empty(ROWS, 15, 2048)
    for row, each in enumerate(noise):
        fill_noise(each, CodeSampling(seed=row).generator(torch.device("cpu")), SamplingParams())
    return hidden, first, noise


def predictor(model: Tiny, kv_mode: KVMode = KVMode.CACHE) -> CodePredictor:
    return CodePredictor(model.config.talker_config, model.weights.predictor, ROWS, kv_mode)


def test_both_kv_modes_draw_the_same_codes(tiny: GetTiny) -> None:
    hidden, first, noise = inputs()
    for name in ("custom_voice", "custom_voice_small"):
        codes, embeddings = predictor(tiny(name)).complete(hidden, first, batch(), noise)
        again, other = predictor(tiny(name), KVMode.RECOMPUTE).complete(hidden, first, batch(), noise)
        assert codes.shape == (ROWS, 15)
        assert torch.equal(codes, again), name
        assert torch.equal(embeddings, other), name


def test_a_row_has_the_codes_that_it_has_alone(tiny: GetTiny) -> None:
    hidden, first, noise = inputs()
    for kv_mode in KVMode:
        shared = predictor(tiny("shallow"), kv_mode)
        codes, _ = shared.complete(hidden, first, batch(), noise)
        for row in range(ROWS):
            one = slice(row, row + 1)
            alone, _ = shared.complete(hidden[one], first[one], batch(one), noise[one])
            assert torch.equal(alone, codes[one]), f"{kv_mode}, row {row}"


def test_the_embeddings_are_those_of_the_codes(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
    hidden, first, noise = inputs()
    codes, embeddings = predictor(model).complete(hidden, first, batch(), noise)
    for group, table in enumerate(model.weights.predictor.embeddings):
        assert torch.equal(embeddings[:, group], table[codes[:, group]])


def test_only_the_large_model_has_a_projection(tiny: GetTiny) -> None:
    assert tiny("custom_voice").weights.predictor.projection is not None
    assert tiny("custom_voice_small").weights.predictor.projection is None


def test_captured_rows_have_the_same_codes_and_a_fixed_shape(tiny: GetTiny) -> None:
    hidden, first, noise = inputs()
    plain = predictor(tiny("custom_voice")).complete(hidden, first, batch(), noise)
    captured = predictor(tiny("custom_voice"))
    captured.capture(ROWS, SamplingParams())
    for found, expected in zip(captured.complete(hidden, first, batch(), noise), plain, strict=True):
        assert torch.equal(found, expected)
    usual = sampling_batch([SamplingParams()] * ROWS, 2048)
    assert captured.complete(hidden, first, usual, noise)[0].shape == (ROWS, 15)
    with pytest.raises(ValueError, match="bucket"):
        captured.complete(hidden, first, usual, noise[:, :3])


def test_the_fastest_kv_mode_is_that_of_the_shortest_frame(tiny: GetTiny) -> None:
    model = tiny("custom_voice")
    # The modes alternate: cache, recompute, cache, …; each reads the clock before and after a frame.
    times_s = [9.0, 5.0, 3.0, 4.0, 8.0, 2.5, 7.0, 6.0]
    ticks = iter([tick for seconds in times_s for tick in (0.0, seconds)])
    mode, best_s = fastest_kv_mode(model.config.talker_config, model.weights.predictor, 2, lambda: next(ticks))
    assert mode is KVMode.RECOMPUTE
    assert best_s == {KVMode.CACHE: 3.0, KVMode.RECOMPUTE: 2.5}
