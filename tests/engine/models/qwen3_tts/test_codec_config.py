"""A config file has the meaning that it has in the reference, or is rejected with the field's name."""

import json
from pathlib import Path
from typing import Any

import pytest

from realtime_tts.engine.models.qwen3.config import read_json
from realtime_tts.engine.models.qwen3_tts.codec_config import (
    CodecConfig,
    CodecDecoderConfig,
    CodecEncoderConfig,
    SpeakerEncoderConfig,
)
from realtime_tts.errors import ModelNotUsable

DECODER = {"codebook_dim": 512, "hidden_size": 512, "head_dim": 64, "intermediate_size": 1024}


def read(tmp_path: Path, decoder: dict[str, Any], encoder: dict[str, Any], **others: Any) -> CodecConfig:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"decoder_config": decoder, "encoder_config": encoder, **others}), "utf-8")
    return read_json(path, CodecConfig)


def test_omitted_fields_have_the_references_defaults(tmp_path: Path) -> None:
    config = read(tmp_path, DECODER, {"frame_rate": 12.5, "use_cache": False}, model_type="qwen3_tts_tokenizer_12hz")
    assert config.decoder_config.samples_per_frame == config.encoder_config.samples_per_frame == 1920
    assert config.decoder_config.past_positions == 71
    assert config.decoder_config.head_size == config.encoder_config.head_size == 64
    assert config.encoder_valid_num_quantizers == 16


DECODER_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"codebook_dim": 511}, "codebook_dim"),
    ({"codebook_size": 0}, "codebook_size"),
    ({"decoder_dim": 1000}, "decoder_dim"),
    ({"num_key_value_heads": 4}, "num_key_value_heads"),
    ({"head_dim": 63}, "head_dim"),
    ({"attention_bias": True}, "attention_bias"),
    ({"hidden_act": "gelu"}, "hidden_act"),
    ({"sliding_window": 1}, "sliding_window"),
    ({"upsample_rates": []}, "upsample_rates"),
    ({"upsample_rates": [8, 5, 4, 0]}, "upsample_rates"),
    ({"rope_theta": 0}, "rope_theta"),
    ({"rms_norm_eps": "small"}, "rms_norm_eps"),
    ({"num_quantizers": 8}, "encoder_valid_num_quantizers"),
    ({"codebook_size": 1024}, "codebook_size"),
    ({"upsampling_ratios": [2]}, "samples per frame"),
]
ENCODER_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"audio_channels": 2}, "audio_channels"),
    ({"codebook_dim": 128}, "codebook_dim"),
    ({"num_semantic_quantizers": 2}, "num_semantic_quantizers"),
    ({"use_causal_conv": False}, "use_causal_conv"),
    ({"use_conv_shortcut": True}, "use_conv_shortcut"),
    ({"pad_mode": "reflect"}, "pad_mode"),
    ({"frame_rate": 25}, "frame_rate"),
    ({"compress": 3}, "compress"),
    ({"num_quantizers": 8}, "encoder_valid_num_quantizers"),
    ({"num_attention_heads": 4}, "num_key_value_heads"),
]
SPEAKER_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"enc_channels": (512, 512)}, "enc_channels"),
    ({"enc_dilations": (1, 2)}, "enc_dilations"),
    ({"enc_channels": (512, 512, 256, 512, 1280)}, "enc_channels"),
    ({"enc_channels": (512, 512, 512, 512, 2048)}, "enc_channels"),
    ({"enc_res2net_scale": 7}, "enc_res2net_scale"),
]


def test_an_unsupported_decoder_is_rejected(tmp_path: Path) -> None:
    for fault, field in DECODER_FAULTS:
        with pytest.raises(ModelNotUsable, match=field):
            read(tmp_path, DECODER | fault, {})


def test_an_unsupported_encoder_is_rejected(tmp_path: Path) -> None:
    for fault, field in ENCODER_FAULTS:
        with pytest.raises(ModelNotUsable, match=field):
            read(tmp_path, DECODER, fault)


def test_another_sample_rate_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ModelNotUsable, match="output_sample_rate"):
        read(tmp_path, DECODER, {}, output_sample_rate=16_000)


def test_an_impossible_speaker_encoder_is_rejected() -> None:
    for fault, field in SPEAKER_FAULTS:
        with pytest.raises(ValueError, match=field):
            SpeakerEncoderConfig(**fault)


def test_the_published_values_are_consistent() -> None:
    assert SpeakerEncoderConfig().enc_channels[-1] == 1536
    assert CodecEncoderConfig().samples_per_frame == 1920
    assert CodecDecoderConfig(codebook_dim=512).head_size == 64
