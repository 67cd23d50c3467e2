"""Both spellings of a configuration mean the same, and one that cannot be used is refused by the field."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from realtime_tts.engine.models.qwen3_omni.config import (
    PreprocessorConfig,
    read_config,
    read_generation_config,
    read_preprocessor_config,
    require_speech,
)
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.qwen3_omni.make_checkpoint import make_checkpoint

Change = Callable[[dict[str, Any]], object]


def test_the_spellings_of_transformers_4_and_5_are_equal(omni: Path, tmp_path: Path) -> None:
    make_checkpoint(tmp_path, old_spelling=True)
    new, old = read_config(omni), read_config(tmp_path)
    assert (tmp_path / "config.json").read_text() != (omni / "config.json").read_text()
    assert old.thinker_config.stack == new.thinker_config.stack
    assert require_speech(old).talker.stack == require_speech(new).talker.stack
    assert require_speech(old).decoder == require_speech(new).decoder


def test_the_talkers_experts_may_be_called_local(omni: Path, tmp_path: Path) -> None:
    def rename(config: dict[str, Any]) -> None:
        text = config["talker_config"]["text_config"]
        text["num_local_experts"] = text.pop("num_experts")

    assert (
        require_speech(changed(omni, tmp_path, rename)).talker.stack == require_speech(read_config(omni)).talker.stack
    )


def test_omitted_values_have_the_references_defaults(omni: Path, tmp_path: Path) -> None:
    def omit(config: dict[str, Any]) -> None:
        for stack in (config["thinker_config"]["text_config"], config["talker_config"]["text_config"]):
            del stack["norm_topk_prob"]

    config = changed(omni, tmp_path, omit)
    thinker, talker = config.thinker_config.stack.experts, require_speech(config).talker.stack.experts
    assert thinker is not None
    assert talker is not None
    assert (thinker.renormalised, talker.renormalised) == (True, False)


def test_a_model_without_speech_is_known(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, text_only=True)
    config = read_config(tmp_path)
    assert config.speech is None
    with pytest.raises(ModelNotUsable, match="text alone"):
        require_speech(config)


def test_unusable_configurations_are_refused_by_their_field(omni: Path, tmp_path: Path) -> None:
    cases: list[tuple[Change, str]] = [
        (lambda c: c.update(model_type="qwen3"), "model_type"),
        (lambda c: c.pop("im_end_token_id"), "im_end_token_id"),
        (lambda c: c["thinker_config"].pop("audio_token_id"), "audio_token_id"),
        (lambda c: c.update(tts_pad_token_id=5000), "outside the vocabulary of 384"),
        (lambda c: c["thinker_config"]["text_config"].update(hidden_act="gelu"), "hidden_act"),
        (lambda c: c["thinker_config"]["text_config"].pop("num_experts"), "num_experts"),
        (lambda c: c["thinker_config"]["text_config"].update(mlp_only_layers=[1]), "mlp_only_layers"),
        (lambda c: c["thinker_config"]["audio_config"].update(output_dim=32), "another width"),
        (lambda c: c["thinker_config"]["audio_config"].update(encoder_attention_heads=3), "d_model"),
        (lambda c: c["thinker_config"]["audio_config"].update(n_window_infer=850), "n_window_infer"),
        (lambda c: c["thinker_config"]["vision_config"].update(num_position_embeddings=7), "square"),
        (lambda c: c["thinker_config"]["vision_config"].update(deepstack_visual_indexes=[3]), "outside of 3"),
        (lambda c: c["thinker_config"]["vision_config"].update(num_heads=3), "rows and columns"),
        (lambda c: c["thinker_config"]["vision_config"].update(patch_size=14), "patch_size"),
        (lambda c: c["talker_config"].update(accept_hidden_layer=2), "between 2 and 5, got 2"),
        (lambda c: c["talker_config"].update(thinker_hidden_size=8), "thinker_hidden_size"),
        (lambda c: c["talker_config"].update(codec_bos_id=4197), "4197"),
        (lambda c: c["talker_config"].update(speaker_id={}), "speaker"),
        (lambda c: c["code2wav_config"].update(upsample_rates=[8, 5, 4]), "480|samples"),
        (lambda c: c["code2wav_config"].update(codebook_size=1024), "more codes"),
        (lambda c: c["code2wav_config"].update(num_quantizers=8), "num_quantizers"),
        (lambda c: c.pop("code2wav_config"), "enable_audio_output"),
    ]
    for change, message in cases:
        with pytest.raises(ModelNotUsable, match=message):
            changed(omni, tmp_path, change)


def test_sampling_and_preprocessing_may_be_absent_but_not_different(tmp_path: Path) -> None:
    assert read_generation_config(tmp_path).talker_max_new_tokens == 4096
    assert read_preprocessor_config(tmp_path) == PreprocessorConfig()
    (tmp_path / "preprocessor_config.json").write_text('{"n_fft": 512}')
    with pytest.raises(ModelNotUsable, match="n_fft"):
        read_preprocessor_config(tmp_path)


def changed(omni: Path, directory: Path, change: Change) -> Any:
    config = json.loads((omni / "config.json").read_text("utf-8"))
    change(config)
    (directory / "config.json").write_text(json.dumps(config), "utf-8")
    return read_config(directory)
