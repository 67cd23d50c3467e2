"""A published config is read; an invalid one is rejected with the name of the field."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from realtime_tts.engine.models.qwen3.sampling import CodeSampling, SamplingParams
from realtime_tts.engine.models.qwen3_tts.config import ModelType, read_config, read_generation_config
from realtime_tts.engine.models.qwen3_tts.generation import published_sampling
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.qwen3_tts.tiny import GetTiny

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def write(tiny: GetTiny, tmp_path: Path) -> Callable[[Change], Path]:
    """Writes a changed config.json into a directory of its own."""
    published = (tiny("custom_voice").directory / "config.json").read_text("utf-8")

    def write(change: Change) -> Path:
        config = json.loads(published)
        change(config)
        (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
        return tmp_path

    return write


def test_the_config_lists_speakers_languages_and_dialects(tiny: GetTiny) -> None:
    custom = tiny("custom_voice").config
    assert custom.tts_model_type is ModelType.CUSTOM_VOICE
    assert custom.speakers == ("vivian", "ryan", "eric", "dylan")
    assert custom.languages == ("chinese", "english", "german"), "a dialect is selected by its speaker"
    assert custom.talker_config.dialect_of("eric") == "sichuan_dialect"
    assert custom.talker_config.dialect_of("ryan") is None
    assert custom.supports_instructions
    assert tiny("voice_design").config.supports_instructions
    assert not tiny("custom_voice_small").config.supports_instructions
    assert not tiny("base").config.supports_instructions


def test_the_published_sampling_is_read(tiny: GetTiny) -> None:
    config = read_generation_config(tiny("base").directory)
    assert config.max_new_tokens == 8192
    params = SamplingParams(0.9, 50, 1.0)
    assert published_sampling(config, seed=3) == CodeSampling(params, params, 1.05, seed=3)


def _talker(**fields: Any) -> Change:
    return lambda config: config["talker_config"].update(fields)


FAULTS: list[tuple[Change, str]] = [
    (lambda config: config.pop("talker_config"), "talker_config"),
    (lambda config: config.update(tts_model_type="omni"), "tts_model_type"),
    (lambda config: config.update(tokenizer_type="qwen3_tts_tokenizer_25hz"), "tokenizer_type"),
    (lambda config: config.update(tts_pad_token_id=10**9), "text id"),
    (lambda config: config["talker_config"].pop("hidden_size"), "hidden_size"),
    (_talker(hidden_size="64"), "hidden_size"),
    (_talker(hidden_size=-1), "positive"),
    (_talker(num_key_value_heads=3), "cannot share"),
    (_talker(num_key_value_heads=0), "positive"),
    (_talker(head_dim=15), "even"),
    (_talker(hidden_act="gelu"), "hidden_act"),
    (_talker(attention_bias=True), "bias"),
    (_talker(rope_scaling={"rope_type": "yarn"}), "rope_type"),
    (_talker(rms_norm_eps=0), "rms_norm_eps"),
    (_talker(num_code_groups=8), "num_code_groups"),
    (_talker(vocab_size=1000), "vocab"),
    (_talker(codec_bos_id=3072), "codec ids"),
    (_talker(codec_eos_token_id=5), "codec_eos_token_id"),
    (_talker(spk_id={"ryan": -1}), "codec ids"),
    (_talker(spk_id={}), "speaker"),
    (_talker(spk_is_dialect={"ryan": "klingon"}), "klingon"),
]


def test_an_invalid_field_is_rejected_with_its_name(write: Callable[[Change], Path]) -> None:
    for change, field in FAULTS:
        with pytest.raises(ModelNotUsable, match=field):
            read_config(write(change))


def test_a_file_that_is_not_a_config_is_rejected(tmp_path: Path) -> None:
    for content in (b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000):
        (tmp_path / "config.json").write_bytes(content)
        with pytest.raises(ModelNotUsable, match=r"config\.json"):
            read_config(tmp_path)


def test_a_directory_without_a_config_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ModelNotUsable, match=r"generation_config\.json cannot be read"):
        read_generation_config(tmp_path)


def test_unknown_fields_are_ignored(write: Callable[[Change], Path]) -> None:
    read_config(write(lambda config: config["talker_config"].update(some_new_field=[1, 2])))
