"""A directory that would load is found whole, one that would not is told so, and nothing is read but headers."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from realtime_tts.engine.models.qwen3_tts import budget, build, survey
from realtime_tts.engine.models.qwen3_tts.config import ModelType
from realtime_tts.engine.models.qwen3_tts.published import published
from realtime_tts.errors import ModelNotUsable

GIB = 1024**3
GetWhole = Callable[[str], Path]


def told(gpu_memory_gb: float | None = None, **options: Any) -> list[str]:
    lines: list[str] = []
    survey.examine(options, gpu_memory_gb, lines.append)
    return lines


def rows(lines: list[str]) -> dict[float, list[str]]:
    """The table: what each size of a GPU holds."""
    found = [re.fullmatch(r" +([\d.]+) GB  (.*)", line) for line in lines]
    return {float(row[1]): re.split(" {2,}", row[2].strip()) for row in found if row}


# -- A directory -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["custom_voice", "voice_design", "base", "base_small"])
def test_a_whole_directory_is_told_what_it_takes(whole: GetWhole, name: str) -> None:
    directory = whole(name)
    lines = told(model_dir=directory, device="cpu")
    assert "every tensor" in lines[0]
    assert any("float32: weights" in line and "4 slots are made" in line for line in lines)
    assert any("bfloat16: weights" in line for line in lines)  # what a GPU would have
    assert list(rows(lines)) == list(survey.GPU_SIZES_GB)


def test_its_needs_are_those_that_are_reckoned_with_when_it_is_loaded(whole: GetWhole) -> None:
    directory = whole("base")
    found = survey.check_directory(directory, torch.bfloat16, 100, print)
    assert found.weights_bytes == budget.weights_bytes(directory, torch.bfloat16)
    talker = found.config.talker_config
    assert found.slot_cache_bytes == budget.talker_bytes_per_slot(talker, torch.bfloat16, 100)
    assert found.slot_decoder_bytes == budget.decoder_bytes_per_slot(found.codec)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def without_a_tensor(path: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(path)
    del tensors[min(tensors)]
    save_file(tensors, path)


def with_one_more(path: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(path)
    prefix = min(tensors).partition(".")[0]
    save_file(tensors | {f"{prefix}.unheard_of": torch.zeros(1)}, path)


BREAKS: list[tuple[str, str, Callable[[Path], object], str]] = [
    ("custom_voice", "config.json", Path.unlink, "config.json"),
    ("custom_voice", "config.json", lambda path: path.write_text("{}"), "is not as published"),
    ("custom_voice", "generation_config.json", Path.unlink, "generation_config.json"),
    ("custom_voice", "vocab.json", Path.unlink, "vocab.json"),
    ("custom_voice", "merges.txt", Path.unlink, "merges.txt"),
    ("custom_voice", "model.safetensors", Path.unlink, "neither model.safetensors nor"),
    ("custom_voice", "model.safetensors", cut_off, "model.safetensors cannot be read"),
    ("custom_voice", "model.safetensors", without_a_tensor, "has no tensor talker."),
    ("custom_voice", "model.safetensors", with_one_more, "talker.unheard_of"),
    ("custom_voice", "speech_tokenizer/model.safetensors", with_one_more, "unheard_of"),
    ("base", "model.safetensors.index.json", Path.unlink, "neither model.safetensors nor"),
    ("base", "model-00002-of-00003.safetensors", Path.unlink, "model-00002-of-00003.safetensors"),
    ("base", "model-00002-of-00003.safetensors", cut_off, "model-00002-of-00003.safetensors cannot be read"),
    ("base", "model-00003-of-00003.safetensors", without_a_tensor, "index.json and its files differ"),
    ("base", "speech_tokenizer/config.json", Path.unlink, "speech_tokenizer/config.json"),
    ("base", "speech_tokenizer/model.safetensors", cut_off, "speech_tokenizer/model.safetensors cannot be read"),
    ("base", "speech_tokenizer/model.safetensors", without_a_tensor, "decoder"),
]


@pytest.mark.parametrize(("name", "file", "harm", "words"), BREAKS, ids=str)
def test_what_is_missing_or_cut_off_is_named(
    whole: GetWhole, tmp_path: Path, name: str, file: str, harm: Callable[[Path], object], words: str
) -> None:
    directory = tmp_path / name
    shutil.copytree(whole(name), directory)
    harm(directory / file)
    with pytest.raises(ModelNotUsable, match=re.escape(words)):
        told(model_dir=directory)
    with pytest.raises(ModelNotUsable):
        build(model_dir=directory, device="cpu", slots=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model_dir": "nowhere"}, "nowhere is not a directory"),
        ({"model_dir": "some/where"}, "nothing is downloaded"),
        ({"fast": True}, "no option fast; it has model_dir"),
        ({"dtype": "int8"}, "dtype must be"),
        ({"max_len": 1}, "max_len must be"),
        ({"slots": 0}, "slots must be"),
        ({"device": "cuda:99"}, "cuda:99 is not there"),
    ],
    ids=str,
)
def test_options_that_cannot_be_are_refused_as_they_are_by_the_model(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelNotUsable, match=re.escape(words)):
        told(**options)


def test_more_positions_than_the_model_has_are_refused(whole: GetWhole) -> None:
    longest = json.loads((whole("custom_voice") / "config.json").read_text())["talker_config"][
        "max_position_embeddings"
    ]
    assert told(model_dir=whole("custom_voice"), max_len=longest)
    with pytest.raises(ModelNotUsable, match=f"at most {longest}"):
        told(model_dir=whole("custom_voice"), max_len=longest + 1)


# -- GPUs --------------------------------------------------------------------------------------------------------------


def test_the_table_says_what_the_budget_does() -> None:
    lines = told(device="cpu")
    found = rows(lines)
    assert list(found) == list(survey.GPU_SIZES_GB)
    small, large = (published(size, ModelType.CUSTOM_VOICE, torch.bfloat16, 2048) for size in ("0.6B", "1.7B"))
    for size_gb, cells in found.items():
        free = int(size_gb * GIB) - budget.CONTEXT_BYTES
        assert (cells[0], cells[2]) == (str(small.slots(free)), str(large.slots(free)))
    assert not any("float32" in line for line in lines)  # that a CPU would have


def test_one_gpu_may_be_asked_for_and_may_be_too_small() -> None:
    assert list(rows(told(32.0, device="cpu"))) == [32.0]
    (cells,) = rows(told(6.0, device="cpu")).values()
    assert cells[0].isdigit()
    assert cells[2:] == ["too small", "too small"]


def test_a_larger_type_and_longer_slots_take_more() -> None:
    def first(**options: Any) -> int:
        return int(rows(told(24.0, device="cpu", **options))[24.0][0])

    assert first(max_len=1024) > first() > first(dtype="float32")
    assert first(dtype="bfloat16") == first()


def test_on_a_gpu_it_is_told_what_fits_beside_what_is_there_already() -> None:
    footprint = published("1.7B", ModelType.BASE, torch.bfloat16, 2048)
    gpu = survey.Gpu("a GPU", free_bytes=20 * GIB, total_bytes=24 * GIB)
    fit = footprint.slots(gpu.free_bytes)
    lines: list[str] = []
    survey.tell_of_gpu([footprint], gpu, None, lines.append)
    assert "a GPU: 20.0 of 24.0 GiB are free" in lines[0]
    assert f"{fit} slots fit, {fit} are made" in lines[-1]
    survey.tell_of_gpu([footprint], gpu, fit, lines.append)
    with pytest.raises(ModelNotUsable, match=f"room for {fit} slots, and {fit + 1} are needed"):
        survey.tell_of_gpu([footprint], gpu, fit + 1, lines.append)
    full = survey.Gpu("a GPU", free_bytes=4 * GIB, total_bytes=24 * GIB)
    with pytest.raises(ModelNotUsable, match="room for 0 slots"):
        survey.tell_of_gpu([footprint], full, None, lines.append)


def test_there_may_be_room_for_more_slots_than_are_made() -> None:
    footprint = published("0.6B", ModelType.CUSTOM_VOICE, torch.bfloat16, 2048)
    lines: list[str] = []
    survey.tell_of_gpu([footprint], survey.Gpu("a GPU", 140 * GIB, 140 * GIB), None, lines.append)
    assert lines[-1].startswith(f"ok    {footprint.slots(140 * GIB)} slots fit, 256 are made")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_the_gpu_that_is_here_is_found(whole: GetWhole) -> None:
    lines = told(model_dir=whole("custom_voice"))
    assert any(torch.cuda.get_device_name() in line for line in lines)
    assert "slots fit" in lines[-1]
