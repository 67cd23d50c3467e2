"""What is reckoned beforehand is what is then used."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from realtime_tts.engine.models.qwen3_tts import budget
from realtime_tts.engine.models.qwen3_tts.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_tts.code2wav import state_shapes
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecDecoderConfig
from realtime_tts.engine.models.qwen3_tts.codec_state import StateArena
from realtime_tts.engine.models.qwen3_tts.config import ModelConfig, read_config
from realtime_tts.engine.models.qwen3_tts.layers import SlotCache
from tests.engine.models.qwen3_tts.make_checkpoint import RECIPES, make_checkpoint
from tests.engine.models.qwen3_tts.make_whole import WHOLE_DECODER, whole_codec_state

CPU = torch.device("cpu")
CODEC = convert(WHOLE_DECODER, CodecDecoderConfig)
GIB = 1024**3


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> ModelConfig:
    directory = tmp_path_factory.mktemp("budget")
    make_checkpoint(directory, RECIPES["custom_voice"])
    return read_config(directory)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_talker_s_slot_is_as_large_as_was_reckoned(config: ModelConfig, dtype: torch.dtype) -> None:
    talker = config.talker_config
    caches = [
        SlotCache(talker, 3, 100, CPU, dtype),
        SlotCache(talker.code_predictor_config, 3, talker.num_code_groups, CPU, dtype),
    ]
    tensors = [tensor for cache in caches for tensor in (cache.keys, cache.values)]
    rows = 2 * talker.hidden_size * dtype.itemsize + talker.vocab_size
    assert budget.talker_bytes_per_slot(talker, dtype, 100) == sum(t.nbytes for t in tensors) // 3 + rows


def test_a_decoder_s_slot_is_as_large_as_was_reckoned() -> None:
    assert budget.decoder_bytes_per_slot(CODEC) == StateArena(state_shapes(CODEC), 2, CPU).bytes_per_slot


def test_a_published_decoder_s_slot_takes_what_was_measured() -> None:
    assert round(budget.decoder_bytes_per_slot(CodecDecoderConfig(codebook_dim=512)) / 1e6, 2) == 5.19


@pytest.mark.parametrize(("name", "hears"), [("custom_voice", False), ("base", True)])
def test_weights_are_those_that_are_kept(whole: Callable[[str], Path], name: str, hears: bool) -> None:
    directory = whole(name)
    codec = whole_codec_state()
    fp32 = sum(t.numel() for key, t in codec.items() if hears or key.startswith("decoder."))
    talker = Checkpoint(directory, CPU, torch.float32)
    fp32 += talker.count("speaker_encoder.") * hears
    half = talker.count("talker.")
    assert min(half, fp32) > 10_000
    assert budget.weights_bytes(directory, torch.bfloat16) == 2 * half + 4 * fp32


@given(free=st.integers(0, 200 * GIB), more=st.integers(0, GIB), max_len=st.integers(64, 4096))
def test_as_many_slots_fit_as_leave_room_to_work(config: ModelConfig, free: int, more: int, max_len: int) -> None:
    slots = budget.slots_that_fit(config, CODEC, free, torch.bfloat16, max_len)
    slot = budget.talker_bytes_per_slot(config.talker_config, torch.bfloat16, max_len)
    slot += budget.decoder_bytes_per_slot(CODEC)
    left = free - max(budget.WORKING_BYTES, int(budget.WORKING_SHARE * free))
    assert slots * slot <= max(0, left) < (slots + 1) * slot
    assert slots <= budget.slots_that_fit(config, CODEC, free + more, torch.bfloat16, max_len)


@given(
    free=st.integers(-GIB, 200 * GIB),
    weights=st.integers(0, 8 * GIB),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_a_footprint_has_room_for_its_weights_first(
    config: ModelConfig, free: int, weights: int, dtype: torch.dtype
) -> None:
    footprint = budget.Footprint("tiny", config, CODEC, weights, dtype, 100)
    assert footprint.slots(free) == budget.slots_that_fit(config, CODEC, free - weights, dtype, 100)
    slot = footprint.slot_cache_bytes + footprint.slot_decoder_bytes
    assert weights + footprint.slots(free) * slot <= max(free, weights)
