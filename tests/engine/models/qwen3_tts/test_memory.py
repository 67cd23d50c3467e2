"""The calculated memory is that which loading then uses."""

from math import prod
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert, to_builtins

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3.codec.state import StateArena
from realtime_tts.engine.models.qwen3.layers import SlotCache
from realtime_tts.engine.models.qwen3_tts import memory
from realtime_tts.engine.models.qwen3_tts.code2wav import state_shapes
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecDecoderConfig, SpeakerEncoderConfig
from realtime_tts.engine.models.qwen3_tts.config import ModelType
from realtime_tts.engine.models.qwen3_tts.memory import ModelMemory, checkpoint_memory, published_memory
from tests.engine.models.qwen3_tts.make_checkpoint import shapes
from tests.engine.models.qwen3_tts.make_codec import ENCODER, decoder_shapes, encoder_shapes
from tests.engine.models.qwen3_tts.make_whole import WHOLE_DECODER, whole_codec_state
from tests.engine.models.qwen3_tts.pipeline import GetWhole
from tests.engine.models.qwen3_tts.tiny import GetTiny

CPU = torch.device("cpu")
DTYPES = (torch.float32, torch.bfloat16)
GIB = 1024**3
PUBLISHED_TENSORS = {"0.6B": (478, 914_643_008), "1.7B": (480, 1_928_677_440)}
"""Tensors, and values in them, of the published files of the Base model."""
PUBLISHED_ENCODER = ENCODER | {
    "hidden_size": 512,
    "num_filters": 64,
    "codebook_size": 2048,
    "codebook_dim": 256,
    "num_hidden_layers": 8,
    "intermediate_size": 2048,
    "num_attention_heads": 8,
    "head_dim": 64,
}


def values(found: dict[str, tuple[int, ...]], prefix: str = "") -> int:
    return sum(prod(shape) for name, shape in found.items() if name.startswith(prefix))


def test_a_slot_has_the_size_of_the_allocated_tensors(tiny: GetTiny, whole: GetWhole) -> None:
    talker = tiny("custom_voice").config.talker_config
    codec = convert(WHOLE_DECODER, CodecDecoderConfig)
    arena = StateArena(state_shapes(codec), 2, CPU)
    for dtype in DTYPES:
        found = checkpoint_memory(whole("custom_voice"), "tiny", dtype, 100)
        caches = [
            SlotCache(talker, 3, 100, CPU, dtype),
            SlotCache(talker.code_predictor_config, 3, talker.num_code_groups, CPU, dtype),
        ]
        tensors = [tensor for cache in caches for tensor in (cache.keys, cache.values)]
        rows = 2 * talker.hidden_size * dtype.itemsize + talker.vocab_size
        assert found.talker_bytes_per_slot == sum(tensor.nbytes for tensor in tensors) // 3 + rows
        assert found.decoder_bytes_per_slot == arena.snapshot(arena.acquire()).nbytes


def test_a_slot_of_the_published_decoder_has_the_measured_size() -> None:
    found = published_memory("0.6B", ModelType.CUSTOM_VOICE, torch.bfloat16, 2048)
    assert round(found.decoder_bytes_per_slot / 1e6, 2) == 5.19


def test_weights_are_counted_if_they_are_loaded(tiny: GetTiny, whole: GetWhole) -> None:
    codec = whole_codec_state()
    for name, clones in (("custom_voice", False), ("base", True)):
        kept = sum(tensor.numel() for key, tensor in codec.items() if clones or key.startswith("decoder."))
        with Checkpoint(whole(name), CPU, torch.float32) as checkpoint:
            talker = sum(tensor.numel() for tensor in checkpoint.read_all("talker.").values())
            kept += clones * sum(tensor.numel() for tensor in checkpoint.read_all("speaker_encoder.").values())
        found = checkpoint_memory(whole(name), "tiny", torch.bfloat16, 100)
        assert found.weights_bytes == 2 * talker + 4 * kept, name
        assert found.voice_cache_bytes == clones * memory.VOICE_CACHE_BYTES, name


@given(
    free=st.integers(-GIB, 200 * GIB),
    more=st.integers(0, GIB),
    weights=st.integers(0, 8 * GIB),
    slot=st.integers(1, GIB),
    voices=st.sampled_from([0, memory.VOICE_CACHE_BYTES]),
)
def test_slots_fill_the_memory_that_weights_and_activations_leave(
    free: int, more: int, weights: int, slot: int, voices: int
) -> None:
    found = ModelMemory("tiny", torch.bfloat16, 100, weights, slot - slot // 2, slot // 2, voices)
    slots = found.slots(free)
    available = free - weights
    left = available - max(memory.WORKING_BYTES, int(memory.WORKING_SHARE * available)) - voices
    assert slots * slot <= max(0, left) < (slots + 1) * slot
    assert slots <= found.slots(free + more)
    assert slots == found.slots(available, weights_loaded=True)


# -- Published sizes ---------------------------------------------------------------------------------------------------


def test_the_published_configurations_have_the_tensors_of_the_published_files() -> None:
    for size, talker in memory.TALKERS.items():
        text: dict[str, Any] = {"text_hidden_size": 2048, "text_vocab_size": 151_936}
        found = shapes(
            {
                "tts_model_type": "base",
                "talker_config": to_builtins(talker) | text | {"code_predictor_config": to_builtins(memory.PREDICTOR)},
                "speaker_encoder_config": to_builtins(SpeakerEncoderConfig(enc_dim=talker.hidden_size)),
            }
        )
        assert (len(found), values(found)) == PUBLISHED_TENSORS[size]
        assert values(found, "talker.") == memory.TALKER_VALUES[size]
        assert values(found, "speaker_encoder.") == memory.SPEAKER_ENCODER_VALUES[size]
    assert values(decoder_shapes(to_builtins(memory.CODEC))) == memory.DECODER_VALUES
    assert values(encoder_shapes(PUBLISHED_ENCODER)) == memory.ENCODER_VALUES
    assert memory.CODEC.samples_per_frame == 1920


def test_only_the_base_model_loads_encoders_and_only_the_talker_is_in_half_precision() -> None:
    for size in memory.TALKERS:
        half, full = (published_memory(size, ModelType.CUSTOM_VOICE, dtype, 2048) for dtype in reversed(DTYPES))
        assert full.weights_bytes - half.weights_bytes == 2 * memory.TALKER_VALUES[size]
        base = published_memory(size, ModelType.BASE, torch.bfloat16, 2048)
        encoders = memory.ENCODER_VALUES + memory.SPEAKER_ENCODER_VALUES[size]
        assert base.weights_bytes - half.weights_bytes == 4 * encoders
        assert (half.name, base.name) == (f"{size} CustomVoice", f"{size} Base")
