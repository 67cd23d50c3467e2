"""The prepared model is made once, found again, made again when damaged, and never in the way of another process."""

import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from realtime_tts.engine.models.kokoro import cut
from realtime_tts.engine.models.kokoro.cut import cut_model, user_cache_dir
from realtime_tts.engine.models.kokoro.weights import MODEL_NAME, Weights, find_weights
from realtime_tts.engine.stage import Model
from realtime_tts.errors import ModelNotUsable


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Stands in for the 2 s of cutting, and counts."""
    made: list[Path] = []

    def cut_quickly(weights: Weights, directory: Path) -> None:
        made.append(directory)
        for name in ("front.onnx", "vocoder.onnx"):
            (directory / name).write_text(f"{name} of {weights.sha256}")
        (directory / "SHA256SUMS").write_text(cut._sums(directory))

    monkeypatch.setattr(cut, "_cut", cut_quickly)
    return made


WEIGHTS = Weights("ab" * 32)


def prepared(cache: Path) -> tuple[str, str]:
    with cut_model(WEIGHTS, cache, lambda line: None) as halves:
        return halves.front.read_text(), halves.vocoder.read_text()


def test_it_is_made_once_and_says_so(tmp_path: Path, quick: list[Path]) -> None:
    lines: list[str] = []
    for _ in range(2):
        with cut_model(WEIGHTS, tmp_path, lines.append) as halves:
            assert halves.vocoder.exists()
    assert len(quick) == 1
    assert lines == ["Preparing the embedded voice (once, about 4 s) …"]


@pytest.mark.parametrize("damage", ["truncate", "alter", "remove", "sums"])
def test_a_damaged_cache_is_made_again(tmp_path: Path, quick: list[Path], damage: str) -> None:
    whole = prepared(tmp_path)
    path = next(tmp_path.rglob("SHA256SUMS" if damage == "sums" else "vocoder.onnx"))
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-3] + (b"???" if damage == "alter" else b""))
    assert prepared(tmp_path) == whole
    assert len(quick) == 2
    assert [entry.name for entry in path.parent.parent.iterdir()] == [path.parent.name]


def test_many_at_once_all_get_a_whole_one(tmp_path: Path, quick: list[Path]) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(prepared, [tmp_path] * 16))) == 1
    assert len(list(tmp_path.rglob("front.onnx"))) == 1


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, quick: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a directory")
    with caplog.at_level(logging.WARNING), cut_model(WEIGHTS, in_the_way, lambda line: None) as halves:
        assert halves.front.exists()
    assert not halves.front.exists()
    assert "cannot keep the prepared voice" in caplog.text


def test_the_cache_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert user_cache_dir() == Path("/somewhere")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert user_cache_dir().is_absolute()


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / MODEL_NAME).write_bytes(b"\xff" * 40)
    with (
        pytest.raises(ModelNotUsable, match="is not an ONNX model"),
        cut_model(find_weights(tmp_path), tmp_path, lambda line: None),
    ):
        pass


def test_a_model_of_another_layout_is_refused_by_what_it_lacks(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("tokens", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["tokens"], ["audio"])], "g", [value], [])
    onnx.save(helper.make_model(graph), tmp_path / MODEL_NAME)
    with (
        pytest.raises(ModelNotUsable, match="/encoder/MatMul_1_output_0"),
        cut_model(find_weights(tmp_path), tmp_path, lambda line: None),
    ):
        pass


@pytest.mark.model
def test_two_processes_prepare_one_cache_at_once(tmp_path: Path, model: Model) -> None:
    code = (
        "import sys, pathlib; from realtime_tts.engine.models.kokoro.cut import cut_model;"
        "from realtime_tts.engine.models.kokoro.weights import find_weights\n"
        "with cut_model(find_weights(), pathlib.Path(sys.argv[1]), print) as halves:"
        " print(halves.vocoder.stat().st_size)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(cut.__file__).parents[4])}
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    sizes = {process.communicate(timeout=120)[0].splitlines()[-1] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert len(sizes) == 1
    assert len(list(tmp_path.rglob("vocoder.onnx"))) == 1
