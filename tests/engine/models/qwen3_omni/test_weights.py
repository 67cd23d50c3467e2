"""Every tensor of a directory is read once: missing, unknown and misshapen ones are named."""

import pytest

pytest.importorskip("torch")

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from realtime_tts.engine.models.qwen3_omni.config import read_config
from realtime_tts.engine.models.qwen3_omni.weights import OmniWeights, load_omni_weights
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.qwen3_omni.make_checkpoint import make_checkpoint, write_tensors

CPU, META = torch.device("cpu"), torch.device("meta")


def load(directory: Path, device: torch.device, **options: object) -> OmniWeights:
    return load_omni_weights(
        directory,
        read_config(directory),
        thinker_device=device,
        speech_device=device,
        dtype=torch.float32,
        **options,  # type: ignore[arg-type]
    )


@pytest.fixture
def tensors(omni: Path, tmp_path: Path) -> dict[str, torch.Tensor]:
    """All tensors of the tiny model, whose other files are in `tmp_path`."""
    for name in ("config.json", "vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes((omni / name).read_bytes())
    return {name: tensor for path in sorted(omni.glob("*.safetensors")) for name, tensor in load_file(path).items()}


def test_missing_tensors_of_all_parts_are_named_together(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    gone = [
        "code2wav.code_embedding.weight",
        "talker.codec_head.weight",
        "talker.model.layers.0.mlp.experts.7.up_proj.weight",
        "thinker.audio_tower.conv2d1.bias",
        "thinker.lm_head.weight",
        "thinker.visual.merger.ln_q.weight",
    ]
    write_tensors(tmp_path, {name: tensor for name, tensor in tensors.items() if name not in gone})
    with pytest.raises(ModelNotUsable) as raised:
        load(tmp_path, META)
    assert all(name in str(raised.value) for name in gone)
    with pytest.raises(ModelNotUsable, match=r"audio_tower\.conv2d1\.bias|lm_head"):
        load(tmp_path, CPU)


def test_the_first_ten_of_many_missing_and_unknown_tensors_are_named(
    tensors: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith("talker.model.layers.0.")}
    write_tensors(tmp_path, kept | {f"talker.extra.{n:02}": torch.ones(1) for n in range(12)})
    with pytest.raises(ModelNotUsable) as raised:
        load(tmp_path, META)
    message = str(raised.value)
    assert message.count("talker.model.layers.0.") == 10
    assert "and 27 more" in message
    assert "tensors that this model does not use: talker.extra.00" in message
    assert "talker.extra.09 and 2 more" in message


def test_a_tensor_of_another_shape_is_named(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    name = "thinker.model.layers.1.mlp.experts.3.down_proj.weight"
    write_tensors(tmp_path, tensors | {name: torch.ones(3, 4)})
    for device in (META, CPU):
        with pytest.raises(ModelNotUsable, match=r"experts\.3\.down_proj\.weight .*shape \(3, 4\), not \(64, 32\)"):
            load(tmp_path, device)


def test_parts_that_are_not_used_are_not_read(omni: Path) -> None:
    weights = load(omni, CPU, audio_input=False, image_input=False)
    assert weights.audio_tower is None
    assert weights.vision_tower is None
    assert weights.speech is not None


def test_a_model_without_speech_has_no_tensors_of_it(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, text_only=True)
    assert load(tmp_path, CPU).speech is None


def test_progress_names_each_file_once(omni: Path) -> None:
    lines: list[str] = []
    load(omni, CPU, progress=lines.append)
    assert [line.split()[1] for line in lines] == sorted(path.name for path in omni.glob("*.safetensors"))
    assert lines[-1].endswith("(3 of 3)")


def test_an_index_that_differs_from_its_files_is_refused(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    write_tensors(tmp_path, tensors)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    del index["weight_map"]["thinker.lm_head.weight"]
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelNotUsable, match=r"differ on thinker\.lm_head\.weight"):
        load(tmp_path, META)
