"""The sizes that were published, as far as memory goes: for whoever asks before there is a directory."""

import torch

from realtime_tts.engine.models.qwen3_tts.about import TASK_TYPES
from realtime_tts.engine.models.qwen3_tts.budget import CODEC_DTYPE, Footprint
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecDecoderConfig
from realtime_tts.engine.models.qwen3_tts.config import ModelConfig, ModelType, StackConfig, TalkerConfig

SIZES = {"0.6B": (1024, 3072), "1.7B": (2048, 6144)}
"""The Talker's hidden and intermediate size.  All else of the published configurations is the same in both."""
TALKER_NUMBERS = {"0.6B": 905_788_672, "1.7B": 1_916_676_352}
SPEAKER_ENCODER_NUMBERS = {"0.6B": 8_854_336, "1.7B": 12_001_088}
DECODER_NUMBERS = 114_323_137
ENCODER_NUMBERS = 56_234_304
"""How many numbers the published files hold of each part."""
CODEC = CodecDecoderConfig(codebook_dim=512, hidden_size=512, head_dim=64, intermediate_size=1024)


def published(size: str, kind: ModelType, dtype: torch.dtype, max_len: int) -> Footprint:
    """What the model of a size (a key of `SIZES`) and kind takes, under its published name."""
    heard = SPEAKER_ENCODER_NUMBERS[size] + ENCODER_NUMBERS if kind is ModelType.BASE else 0
    talker = dtype.itemsize * TALKER_NUMBERS[size]
    return Footprint(
        name=f"{size} {TASK_TYPES[kind]}",
        config=model_config(size, kind),
        codec=CODEC,
        weights_bytes=talker + CODEC_DTYPE.itemsize * (DECODER_NUMBERS + heard),
        dtype=dtype,
        max_len=max_len,
    )


def model_config(size: str, kind: ModelType) -> ModelConfig:
    """With one speaker and one language, which take no memory of their own."""
    hidden, intermediate = SIZES[size]
    talker = TalkerConfig(
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        vocab_size=3072,
        num_code_groups=16,
        text_hidden_size=2048,
        text_vocab_size=151_936,
        codec_pad_id=2148,
        codec_bos_id=2149,
        codec_eos_token_id=2150,
        codec_think_id=2154,
        codec_nothink_id=2155,
        codec_think_bos_id=2156,
        codec_think_eos_id=2157,
        codec_language_id={"english": 2050},
        spk_id={"vivian": 3065} if kind is ModelType.CUSTOM_VOICE else {},
        code_predictor_config=StackConfig(
            hidden_size=1024,
            intermediate_size=3072,
            num_hidden_layers=5,
            num_attention_heads=16,
            num_key_value_heads=8,
            vocab_size=2048,
            num_code_groups=16,
        ),
    )
    return ModelConfig(
        tts_model_type=kind,
        tts_model_size="0b6" if size == "0.6B" else "1b7",
        tokenizer_type="qwen3_tts_tokenizer_12hz",
        talker_config=talker,
    )
