"""Sizes that the layers do not support are rejected, with the field that is wrong."""

from dataclasses import replace
from pathlib import Path

import pytest

from realtime_tts.engine.models.qwen3.config import CodeStackConfig, ExpertsConfig, StackConfig, read_json
from realtime_tts.errors import ModelNotUsable

STACK = StackConfig(
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=8,
    vocab_size=4,
)


def test_unsupported_stacks_are_rejected() -> None:
    for fields, message in (
        ({"num_hidden_layers": 0}, "positive"),
        ({"num_key_value_heads": 0}, "positive"),
        ({"num_attention_heads": 3, "num_key_value_heads": 2}, "share"),
        ({"head_dim": 7}, "head_dim"),
        ({"attention_bias": True}, "bias"),
        ({"rope_theta": 0.0}, "rope_theta"),
        ({"rope_sections": (1, 1, 1)}, "frequencies"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(STACK, **fields)
    with pytest.raises(ValueError, match="num_code_groups"):
        CodeStackConfig(**{name: getattr(STACK, name) for name in StackConfig.__dataclass_fields__}, num_code_groups=1)


def test_unusable_experts_are_rejected() -> None:
    for per_token, inner in ((0, 4), (9, 4), (2, 0)):
        with pytest.raises(ValueError, match="of 8 experts"):
            ExpertsConfig(count=8, per_token=per_token, inner=inner, renormalised=True)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    for name in ("missing.json", "bad.json"):
        with pytest.raises(ModelNotUsable, match=name):
            read_json(tmp_path / name, dict[str, int])
