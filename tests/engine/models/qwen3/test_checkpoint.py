"""Every tensor is read once, and a missing, unused or damaged one is named."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from realtime_tts.engine.models.qwen3.checkpoint import INDEX, SINGLE, Checkpoint, default_dtype
from realtime_tts.engine.models.qwen3_tts.loading import load_talker_weights
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.qwen3_tts.tiny import GetTiny, Tiny

CPU = torch.device("cpu")
HEAD = "talker.codec_head.weight"
PROJECTION = "talker.code_predictor.small_to_mtp_projection.bias"
Tensors = dict[str, torch.Tensor]


def load(model: Tiny, directory: Path) -> None:
    with Checkpoint(directory, CPU, torch.float32) as checkpoint:
        load_talker_weights(checkpoint, model.config.talker_config)


def opened(directory: Path, dtype: torch.dtype = torch.float32) -> Checkpoint:
    return Checkpoint(directory, CPU, dtype)


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., Path]:
    """Writes a directory that contains only these tensors."""

    def write(**tensors: torch.Tensor) -> Path:
        save_file(tensors, tmp_path / SINGLE)
        return tmp_path

    return write


def test_several_files_contain_the_same_tensors_as_one(tiny: GetTiny, tmp_path: Path) -> None:
    sharded = tiny("base").directory
    assert not (sharded / SINGLE).exists()
    joined: Tensors = {}
    for file in sharded.glob("*.safetensors"):
        joined |= load_file(file)
    save_file(joined, tmp_path / SINGLE)
    with opened(sharded) as one, opened(tmp_path) as other:
        tensors, others = one.read_all(""), other.read_all("")
    assert tensors.keys() == others.keys() == joined.keys()
    assert all(torch.equal(tensors[name], others[name]) for name in joined)


def test_a_checkpoint_of_another_structure_is_rejected(tiny: GetTiny, tmp_path: Path) -> None:
    model = tiny("custom_voice")
    tensors = load_file(model.directory / SINGLE)
    cases: list[tuple[Tensors, str]] = [
        ({name: tensor for name, tensor in tensors.items() if name != HEAD}, f"no tensor {HEAD}"),
        (tensors | {"extra": torch.zeros(2)}, "does not use: extra"),
        (tensors | {HEAD: tensors[HEAD][:-1].clone()}, f"{HEAD} .* has shape"),
        (tensors | {HEAD: tensors[HEAD].int()}, f"{HEAD} .* is of torch.int32"),
        ({name: tensor for name, tensor in tensors.items() if name != PROJECTION}, PROJECTION),
    ]
    for changed, words in cases:
        save_file(changed, tmp_path / SINGLE)
        with pytest.raises(ModelNotUsable, match=words):
            load(model, tmp_path)


@pytest.mark.slow
def test_every_kind_of_tensor_is_required(tiny: GetTiny, tmp_path: Path) -> None:
    model = tiny("custom_voice_small")
    tensors = load_file(model.directory / SINGLE)
    # All of them take a minute; the last of each kind finds what a loop could miss.
    kinds = {name.split(".", 2)[1] + name.rsplit(".", 3)[-2] + name.rsplit(".", 1)[-1]: name for name in tensors}
    for name in kinds.values():
        save_file({other: tensor for other, tensor in tensors.items() if other != name}, tmp_path / SINGLE)
        with pytest.raises(ModelNotUsable) as rejection:
            load(model, tmp_path)
        assert name in str(rejection.value)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_truncated_file_is_rejected(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    directory = tmp_path_factory.mktemp("truncated")
    save_file({"a": torch.arange(6.0).view(2, 3), "b": torch.ones(4)}, directory / SINGLE)
    content = (directory / SINGLE).read_bytes()
    (directory / SINGLE).write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(ModelNotUsable, match="cannot be read as safetensors"):
        opened(directory)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_damaged_file_raises_only_our_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    directory = tmp_path_factory.mktemp("damaged")
    save_file({"a": torch.arange(6.0).view(2, 3), "b": torch.ones(4)}, directory / SINGLE)
    altered = bytearray((directory / SINGLE).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        altered[data.draw(st.integers(0, len(altered) - 1))] = data.draw(st.integers(0, 255))
    (directory / SINGLE).write_bytes(altered)
    with suppress(ModelNotUsable), opened(directory) as checkpoint:
        assert checkpoint.read("a", (2, 3)).shape == (2, 3)
        assert checkpoint.read("b", (4,)).shape == (4,)


def test_a_tensor_is_read_once_and_in_the_requested_dtype(small: Callable[..., Path]) -> None:
    with opened(small(a=torch.ones(3), b=torch.ones(3, dtype=torch.float16)), torch.bfloat16) as checkpoint:
        assert checkpoint.read("a", (3,)).dtype is torch.bfloat16
        assert checkpoint.read("b", (3,), torch.float32).dtype is torch.float32
        with pytest.raises(ModelNotUsable, match="no tensor a"):
            checkpoint.read("a", (3,))


def test_the_default_dtype_is_bfloat16_on_a_gpu_and_float32_on_a_cpu() -> None:
    assert default_dtype(torch.device("cuda", 0)) is torch.bfloat16
    assert default_dtype(CPU) is torch.float32


def test_all_tensors_under_a_prefix_are_read_counted_or_skipped(small: Callable[..., Path]) -> None:
    with opened(
        small(**{"x.a": torch.ones(1), "x.b": torch.ones(2), "y": torch.ones(3), "z.a": torch.ones(4)})
    ) as found:
        assert found.count_values("x.") == 3
        assert found.read_all("x.").keys() == {"a", "b"}
        assert found.count_values("x.") == 0
        assert found.read_all("y").keys() == {""}
        found.skip_all("z")


def test_an_exception_is_not_hidden_by_unread_tensors(small: Callable[..., Path]) -> None:
    with pytest.raises(ZeroDivisionError), opened(small(a=torch.ones(1))):
        raise ZeroDivisionError


def test_many_unread_tensors_are_counted(small: Callable[..., Path]) -> None:
    with (
        pytest.raises(ModelNotUsable, match=r"t0, t1, t10, t11, t2, t3, t4, t5, t6, t7 and 2 more"),
        opened(small(**{f"t{n}": torch.ones(1) for n in range(12)})),
    ):
        pass


def test_a_directory_without_weights_is_rejected(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ModelNotUsable, match="contains neither"):
            opened(directory)


# -- Several files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def sharded(tiny: GetTiny, tmp_path: Path) -> Path:
    shutil.copytree(tiny("base").directory, tmp_path / "base")
    return tmp_path / "base"


def _index(directory: Path) -> dict[str, str]:
    weight_map: dict[str, str] = json.loads((directory / INDEX).read_text("utf-8"))["weight_map"]
    return weight_map


def _write_index(directory: Path, weight_map: dict[str, str]) -> None:
    (directory / INDEX).write_text(json.dumps({"weight_map": weight_map}), "utf-8")


def test_an_index_must_match_its_files(sharded: Path) -> None:
    right = _index(sharded)
    files = sorted(set(right.values()))
    moved = right | {HEAD: next(file for file in files if file != right[HEAD])}
    for wrong in (moved, right | {"ghost": files[0]}, {name: file for name, file in right.items() if name != HEAD}):
        _write_index(sharded, wrong)
        with pytest.raises(ModelNotUsable, match=r"differ on (ghost|talker\.codec_head)"):
            opened(sharded)


def test_an_index_cannot_name_files_of_another_directory(sharded: Path) -> None:
    save_file({"a": torch.ones(1)}, sharded.parent / SINGLE)
    for file in (f"../{SINGLE}", str(sharded.parent / SINGLE), "", ".."):
        _write_index(sharded, {"a": file})
        with pytest.raises(ModelNotUsable, match=r"outside of its directory|cannot be read"):
            opened(sharded)


def test_a_missing_file_is_named(sharded: Path) -> None:
    (sharded / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ModelNotUsable, match="model-00002-of-00003"):
        opened(sharded)


def test_a_tensor_in_two_files_is_rejected(sharded: Path) -> None:
    part = sharded / "model-00001-of-00003.safetensors"
    other = sharded / "model-00002-of-00003.safetensors"
    tensors = load_file(other)
    save_file(tensors | dict([next(iter(load_file(part).items()))]), other)
    with pytest.raises(ModelNotUsable, match=r"is in model-00001.* and model-00002"):
        opened(sharded)


def test_an_invalid_index_is_rejected(sharded: Path, tiny: GetTiny) -> None:
    for content in (b"", b"{}", b'{"weight_map": 3}', b'{"weight_map": {}}'):
        (sharded / INDEX).write_bytes(content)
        with pytest.raises(ModelNotUsable):
            load(tiny("base"), sharded)
