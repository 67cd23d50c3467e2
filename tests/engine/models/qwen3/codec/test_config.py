"""Sizes that the decoder does not support are rejected, with the field that is wrong."""

from dataclasses import replace

import pytest

from realtime_tts.engine.models.qwen3.codec.config import DecoderConfig


def test_a_frame_has_1920_samples_by_default() -> None:
    assert DecoderConfig().samples_per_frame == 1920
    assert DecoderConfig().past_positions == 71


def test_unsupported_sizes_are_rejected() -> None:
    for fields, message in (
        ({"decoder_dim": 8}, "decoder_dim"),
        ({"num_key_value_heads": 8}, "num_key_value_heads"),
        ({"head_dim": 3}, "head_dim"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(DecoderConfig(), **fields)  # type: ignore[arg-type]
