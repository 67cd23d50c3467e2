"""Every tensor is taken once; whatever is missing, left over or damaged is named."""

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

from realtime_tts.engine.models.qwen3_tts.checkpoint import INDEX, SINGLE, Checkpoint, default_dtype
from realtime_tts.engine.models.qwen3_tts.talker import load_weights
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.qwen3_tts.tiny import GetTiny, Tiny

CPU = torch.device("cpu")
HEAD = "talker.codec_head.weight"
Tensors = dict[str, torch.Tensor]


def load(model: Tiny, directory: Path) -> None:
    with Checkpoint(directory, CPU, torch.float32) as checkpoint:
        load_weights(checkpoint, model.config.talker_config)


def opened(directory: Path, dtype: torch.dtype = torch.float32) -> Checkpoint:
    return Checkpoint(directory, CPU, dtype)


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., Path]:
    """Writes a directory that holds only these tensors."""

    def write(**tensors: torch.Tensor) -> Path:
        save_file(tensors, tmp_path / SINGLE)
        return tmp_path

    return write


def test_one_file_or_several_hold_the_same(tiny: GetTiny, tmp_path: Path) -> None:
    sharded = tiny("base").directory
    assert not (sharded / SINGLE).exists()
    joined: Tensors = {}
    for file in sharded.glob("*.safetensors"):
        joined |= load_file(file)
    save_file(joined, tmp_path / SINGLE)
    with opened(sharded) as one, opened(tmp_path) as other:
        tensors, others = one.take_all(""), other.take_all("")
    assert tensors.keys() == others.keys() == joined.keys()
    assert all(torch.equal(tensors[name], others[name]) for name in joined)


def _changed(model: Tiny, directory: Path, change: Callable[[Tensors], object]) -> Path:
    tensors = load_file(model.directory / SINGLE)
    change(tensors)
    save_file(tensors, directory / SINGLE)
    return directory


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tensors: tensors.pop(HEAD), f"no tensor {HEAD}"),
        (lambda tensors: tensors.update(extra=torch.zeros(2)), "no use for: extra"),
        (lambda tensors: tensors.update({HEAD: tensors[HEAD][:-1].clone()}), f"{HEAD} .* has shape"),
        (lambda tensors: tensors.update({HEAD: tensors[HEAD].int()}), f"{HEAD} .* is of torch.int32"),
        (lambda tensors: tensors.pop("talker.code_predictor.small_to_mtp_projection.bias"), "small_to_mtp_projection"),
    ],
)
def test_a_checkpoint_that_is_not_this_models_is_refused(
    tiny: GetTiny, tmp_path: Path, change: Callable[[Tensors], object], words: str
) -> None:
    model = tiny("custom_voice")
    with pytest.raises(ModelNotUsable, match=words):
        load(model, _changed(model, tmp_path, change))


def test_every_single_tensor_is_needed(tiny: GetTiny, tmp_path: Path) -> None:
    model = tiny("custom_voice")
    tensors = load_file(model.directory / SINGLE)
    # All of them take a minute; each kind at its first and last place finds what a loop could miss.
    kinds = {name.split(".", 2)[1] + name.rsplit(".", 3)[-2] + name.rsplit(".", 1)[-1]: name for name in tensors}
    for name in kinds.values():
        save_file({other: tensor for other, tensor in tensors.items() if other != name}, tmp_path / SINGLE)
        with pytest.raises(ModelNotUsable) as refusal:
            load(model, tmp_path)
        assert name in str(refusal.value)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_file_that_is_cut_off_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    directory = tmp_path_factory.mktemp("cut")
    save_file({"a": torch.arange(6.0).view(2, 3), "b": torch.ones(4)}, directory / SINGLE)
    whole = (directory / SINGLE).read_bytes()
    (directory / SINGLE).write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ModelNotUsable, match="cannot be read as safetensors"):
        opened(directory)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_a_damaged_file_says_the_refusal_is_ours(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("damaged")
    save_file({"a": torch.arange(6.0).view(2, 3), "b": torch.ones(4)}, directory / SINGLE)
    altered = bytearray((directory / SINGLE).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        altered[data.draw(st.integers(0, len(altered) - 1))] = data.draw(st.integers(0, 255))
    (directory / SINGLE).write_bytes(altered)
    with suppress(ModelNotUsable), opened(directory) as checkpoint:
        assert checkpoint.take("a", (2, 3)).shape == (2, 3)
        assert checkpoint.take("b", (4,)).shape == (4,)


def test_a_tensor_is_taken_once_and_in_the_type_asked_for(small: Callable[..., Path]) -> None:
    with opened(small(a=torch.ones(3), b=torch.ones(3, dtype=torch.float16)), torch.bfloat16) as checkpoint:
        assert "a" in checkpoint
        assert checkpoint.take("a", (3,)).dtype is torch.bfloat16
        assert checkpoint.take("b", (3,), torch.float32).dtype is torch.float32
        assert "a" not in checkpoint
        with pytest.raises(ModelNotUsable, match="no tensor a"):
            checkpoint.take("a", (3,))


def test_the_talker_is_as_published_on_a_gpu_and_exact_elsewhere() -> None:
    assert default_dtype(torch.device("cuda", 0)) is torch.bfloat16
    assert default_dtype(CPU) is torch.float32


def test_all_of_a_prefix_are_taken_without_it(small: Callable[..., Path]) -> None:
    with opened(small(**{"x.a": torch.ones(1), "x.b": torch.ones(2), "y": torch.ones(3)})) as checkpoint:
        assert checkpoint.take_all("x.").keys() == {"a", "b"}
        assert checkpoint.take_all("y").keys() == {""}


def test_an_error_inside_is_not_hidden_by_what_is_left_over(small: Callable[..., Path]) -> None:
    with pytest.raises(ZeroDivisionError), opened(small(a=torch.ones(1))):
        raise ZeroDivisionError


def test_many_left_over_are_counted(small: Callable[..., Path]) -> None:
    with (
        pytest.raises(ModelNotUsable, match=r"t0, t1, t2, t3, t4 and 3 more"),
        opened(small(**{f"t{n}": torch.ones(1) for n in range(8)})),
    ):
        pass


def test_a_directory_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotUsable, match="holds neither"):
        opened(tmp_path)
    with pytest.raises(ModelNotUsable, match="holds neither"):
        opened(tmp_path / "nowhere")


@pytest.fixture
def sharded(tiny: GetTiny, tmp_path: Path) -> Path:
    shutil.copytree(tiny("base").directory, tmp_path / "base")
    return tmp_path / "base"


def _index(directory: Path) -> dict[str, str]:
    weight_map: dict[str, str] = json.loads((directory / INDEX).read_text("utf-8"))["weight_map"]
    return weight_map


def _write_index(directory: Path, weight_map: dict[str, str]) -> None:
    (directory / INDEX).write_text(json.dumps({"weight_map": weight_map}), "utf-8")


def test_an_index_must_tell_the_truth(sharded: Path) -> None:
    right = _index(sharded)
    files = sorted(set(right.values()))
    moved = right | {HEAD: next(file for file in files if file != right[HEAD])}
    for wrong in (moved, right | {"ghost": files[0]}, {name: file for name, file in right.items() if name != HEAD}):
        _write_index(sharded, wrong)
        with pytest.raises(ModelNotUsable, match=r"differ on (ghost|talker\.codec_head)"):
            opened(sharded)


def test_an_index_may_not_point_elsewhere(sharded: Path) -> None:
    save_file({"a": torch.ones(1)}, sharded.parent / SINGLE)
    for file in (f"../{SINGLE}", str(sharded.parent / SINGLE), "", ".."):
        _write_index(sharded, {"a": file})
        with pytest.raises(ModelNotUsable, match=r"out of its directory|cannot be read"):
            opened(sharded)


def test_a_part_that_is_missing_is_named(sharded: Path) -> None:
    (sharded / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ModelNotUsable, match="model-00002-of-00003"):
        opened(sharded)


def test_a_tensor_in_two_parts_is_refused(sharded: Path) -> None:
    part = sharded / "model-00001-of-00003.safetensors"
    other = sharded / "model-00002-of-00003.safetensors"
    tensors = load_file(other)
    save_file(tensors | dict([next(iter(load_file(part).items()))]), other)
    with pytest.raises(ModelNotUsable, match=r"is in model-00001.* and model-00002"):
        opened(sharded)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"weight_map": 3}', b'{"weight_map": {}}'])
def test_an_index_that_is_none_is_refused(sharded: Path, tiny: GetTiny, content: bytes) -> None:
    (sharded / INDEX).write_bytes(content)
    with pytest.raises(ModelNotUsable):
        load(tiny("base"), sharded)
