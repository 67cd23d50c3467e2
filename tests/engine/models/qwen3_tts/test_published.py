"""The published sizes are those of the published files."""

from math import prod
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from msgspec import to_builtins

from realtime_tts.engine.models.qwen3_tts.codec_config import SpeakerEncoderConfig
from realtime_tts.engine.models.qwen3_tts.config import ModelType
from realtime_tts.engine.models.qwen3_tts.published import (
    CODEC,
    DECODER_NUMBERS,
    ENCODER_NUMBERS,
    SIZES,
    SPEAKER_ENCODER_NUMBERS,
    TALKER_NUMBERS,
    model_config,
    published,
)
from tests.engine.models.qwen3_tts.make_checkpoint import shapes
from tests.engine.models.qwen3_tts.make_codec import ENCODER, decoder_shapes, encoder_shapes

PUBLISHED_TENSORS = {"0.6B": (478, 914_643_008), "1.7B": (480, 1_928_677_440)}
"""Tensors, and numbers in them, of the two files of Base."""
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


def numbers(found: dict[str, tuple[int, ...]], prefix: str = "") -> int:
    return sum(prod(shape) for name, shape in found.items() if name.startswith(prefix))


def shapes_of(size: str) -> dict[str, tuple[int, ...]]:
    config: dict[str, Any] = to_builtins(model_config(size, ModelType.BASE))
    hidden = config["talker_config"]["hidden_size"]
    return shapes(config | {"speaker_encoder_config": to_builtins(SpeakerEncoderConfig(enc_dim=hidden))})


@pytest.mark.parametrize("size", SIZES)
def test_the_files_of_these_configurations_are_the_published_ones(size: str) -> None:
    found = shapes_of(size)
    assert (len(found), numbers(found)) == PUBLISHED_TENSORS[size]
    assert numbers(found, "talker.") == TALKER_NUMBERS[size]
    assert numbers(found, "speaker_encoder.") == SPEAKER_ENCODER_NUMBERS[size]


def test_the_codec_is_the_published_one() -> None:
    assert numbers(decoder_shapes(to_builtins(CODEC))) == DECODER_NUMBERS
    assert numbers(encoder_shapes(PUBLISHED_ENCODER)) == ENCODER_NUMBERS
    assert CODEC.samples_per_frame == 1920


@pytest.mark.parametrize("size", SIZES)
def test_only_base_hears_and_only_the_talker_is_halved(size: str) -> None:
    half, whole = (published(size, ModelType.CUSTOM_VOICE, dtype, 2048) for dtype in (torch.bfloat16, torch.float32))
    assert whole.weights_bytes - half.weights_bytes == 2 * TALKER_NUMBERS[size]
    base = published(size, ModelType.BASE, torch.bfloat16, 2048)
    assert base.weights_bytes - half.weights_bytes == 4 * (ENCODER_NUMBERS + SPEAKER_ENCODER_NUMBERS[size])
    assert (half.name, base.name) == (f"{size} CustomVoice", f"{size} Base")
    assert half.config.takes_instructions is (size == "1.7B")
