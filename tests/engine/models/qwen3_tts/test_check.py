"""`doctor` accepts each directory that loads, rejects each that does not, and reads only the headers of its files."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import load_file, save_file

from realtime_tts.engine.models.qwen3_tts import MODEL, build, check
from realtime_tts.engine.models.qwen3_tts.config import ModelType
from realtime_tts.engine.models.qwen3_tts.memory import TALKERS, published_memory
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.qwen3_tts.pipeline import GetWhole

GIB = 1024**3


def reported(gpu_memory_gb: float | None = None, **options: Any) -> list[str]:
    lines: list[str] = []
    check.check_installation(MODEL.complete_options(options), gpu_memory_gb, lines.append)
    return lines


def rows(lines: list[str]) -> dict[float, list[str]]:
    """The table of slots by GPU size."""
    found = [re.fullmatch(r" +([\d.]+) GB  (.*)", line) for line in lines]
    return {float(row[1]): re.split(" {2,}", row[2].strip()) for row in found if row}


# -- A directory -------------------------------------------------------------------------------------------------------


def test_a_complete_directory_reports_its_memory(whole: GetWhole) -> None:
    for name in ("custom_voice", "base"):
        lines = reported(model_dir=whole(name), device="cpu")
        assert "every tensor" in lines[0], name
        assert any("float32: weights" in line and "4 slots are allocated" in line for line in lines), name
        assert any("bfloat16: weights" in line for line in lines), "what a GPU would use"
        assert list(rows(lines)) == list(check.GPU_SIZES_GB), name


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def remove_a_tensor(path: Path) -> None:
    tensors = load_file(path)
    del tensors[min(tensors)]
    save_file(tensors, path)


def add_a_tensor(path: Path) -> None:
    tensors = load_file(path)
    prefix = min(tensors).partition(".")[0]
    save_file(tensors | {f"{prefix}.unknown": torch.zeros(1)}, path)


def write_empty_config(path: Path) -> None:
    path.write_text("{}")


BREAKS: list[tuple[str, str, Callable[[Path], object], str]] = [
    ("custom_voice", "config.json", Path.unlink, "config.json"),
    ("custom_voice", "config.json", write_empty_config, "is not valid"),
    ("custom_voice", "generation_config.json", Path.unlink, "generation_config.json"),
    ("custom_voice", "vocab.json", Path.unlink, "vocab.json"),
    ("custom_voice", "merges.txt", Path.unlink, "merges.txt"),
    ("custom_voice", "model.safetensors", Path.unlink, "neither model.safetensors nor"),
    ("custom_voice", "model.safetensors", truncate, "model.safetensors cannot be read"),
    ("custom_voice", "model.safetensors", remove_a_tensor, "has no tensor talker."),
    ("custom_voice", "model.safetensors", add_a_tensor, "talker.unknown"),
    ("custom_voice", "speech_tokenizer/model.safetensors", add_a_tensor, "unknown tensors: unknown"),
    ("base", "model.safetensors.index.json", Path.unlink, "neither model.safetensors nor"),
    ("base", "model-00002-of-00003.safetensors", Path.unlink, "model-00002-of-00003.safetensors"),
    ("base", "model-00002-of-00003.safetensors", truncate, "model-00002-of-00003.safetensors cannot be read"),
    ("base", "model-00003-of-00003.safetensors", remove_a_tensor, "index.json and its files differ"),
    ("base", "speech_tokenizer/config.json", Path.unlink, "speech_tokenizer/config.json"),
    ("base", "speech_tokenizer/model.safetensors", truncate, "speech_tokenizer/model.safetensors cannot be read"),
    ("base", "speech_tokenizer/model.safetensors", remove_a_tensor, "decoder"),
]


def test_a_missing_or_damaged_file_is_named_and_does_not_load(whole: GetWhole, tmp_path: Path) -> None:
    for number, (name, file, damage, words) in enumerate(BREAKS):
        directory = tmp_path / str(number)
        shutil.copytree(whole(name), directory)
        damage(directory / file)
        with pytest.raises(ModelNotUsable, match=re.escape(words)):
            reported(model_dir=directory)
        with pytest.raises(ModelNotUsable):
            build(model_dir=directory, device="cpu", slots=1)


def test_invalid_options_are_rejected_as_by_the_model() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"model_dir": "nowhere"}, "nowhere is not a directory"),
        ({"model_dir": "some/where"}, "downloads nothing"),
        ({"fast": True}, "no option fast; it has model_dir"),
        ({"dtype": "int8"}, "dtype must be"),
        ({"max_len": 1}, "max_len must be"),
        ({"slots": 0}, "slots must be"),
        ({"device": "cuda:99"}, "cuda:99 does not exist"),
    ]
    for options, words in cases:
        with pytest.raises(ModelNotUsable, match=re.escape(words)):
            reported(**options)


def test_more_positions_than_the_model_has_are_rejected(whole: GetWhole) -> None:
    config = json.loads((whole("custom_voice") / "config.json").read_text())
    longest = config["talker_config"]["max_position_embeddings"]
    assert reported(model_dir=whole("custom_voice"), max_len=longest)
    with pytest.raises(ModelNotUsable, match=f"at most {longest}"):
        reported(model_dir=whole("custom_voice"), max_len=longest + 1)


# -- GPUs --------------------------------------------------------------------------------------------------------------


def test_the_table_has_the_calculated_slots() -> None:
    lines = reported(device="cpu")
    found = rows(lines)
    assert list(found) == list(check.GPU_SIZES_GB)
    columns = [
        published_memory(size, model_type, torch.bfloat16, 2048)
        for size in TALKERS
        for model_type in (ModelType.CUSTOM_VOICE, ModelType.BASE)
    ]
    for size_gb, cells in found.items():
        free = int(size_gb * GIB) - check.CUDA_CONTEXT_BYTES
        assert cells == [str(column.slots(free)) for column in columns]
    assert not any("float32" in line for line in lines), "the CPU's dtype is not that of a GPU"


def test_one_gpu_size_can_be_selected_and_can_be_too_small() -> None:
    assert list(rows(reported(32.0, device="cpu"))) == [32.0]
    (cells,) = rows(reported(6.0, device="cpu")).values()
    assert cells[0].isdigit()
    assert cells[2:] == ["too small", "too small"]


def test_longer_slots_and_a_larger_dtype_take_more_memory() -> None:
    def first(**options: Any) -> int:
        return int(rows(reported(24.0, device="cpu", **options))[24.0][0])

    assert first(max_len=1024) > first() > first(dtype="float32")
    assert first(dtype="bfloat16") == first()


def test_this_machines_gpu_reports_the_slots_that_fit_into_its_free_memory() -> None:
    memory = published_memory("1.7B", ModelType.BASE, torch.bfloat16, 2048)
    gpu = check.Gpu("a GPU", free_bytes=20 * GIB, total_bytes=24 * GIB)
    fit = memory.slots(gpu.free_bytes)
    lines: list[str] = []
    check.report_gpu([memory], gpu, None, lines.append)
    assert "a GPU: 20.0 of 24.0 GiB are free" in lines[0]
    assert f"{fit} slots fit, {fit} are allocated" in lines[-1]
    check.report_gpu([memory], gpu, fit, lines.append)
    with pytest.raises(ModelNotUsable, match=f"{fit} slots fit .* and {fit + 1} are needed"):
        check.report_gpu([memory], gpu, fit + 1, lines.append)
    full = check.Gpu("a GPU", free_bytes=4 * GIB, total_bytes=24 * GIB)
    with pytest.raises(ModelNotUsable, match="0 slots fit"):
        check.report_gpu([memory], full, None, lines.append)


def test_at_most_256_slots_are_allocated() -> None:
    memory = published_memory("0.6B", ModelType.CUSTOM_VOICE, torch.bfloat16, 2048)
    lines: list[str] = []
    check.report_gpu([memory], check.Gpu("a GPU", 140 * GIB, 140 * GIB), None, lines.append)
    assert lines[-1].startswith(f"ok    {memory.slots(140 * GIB)} slots fit, 256 are allocated")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_gpu_of_this_machine_is_found(whole: GetWhole) -> None:
    lines = reported(model_dir=whole("custom_voice"))
    assert any(torch.cuda.get_device_name() in line for line in lines)
    assert "slots fit" in lines[-1]
