"""Tests of the prepared model's cache: written once, replaced when damaged, shared safely by several processes."""

import errno
import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from realtime_tts.engine.models.kokoro.onnx_rewrite import prepare_model
from realtime_tts.engine.models.kokoro.onnx_rewrite.prepare_model import PreparedModel, prepared_model, user_cache_dir
from realtime_tts.engine.models.kokoro.weights import MODEL_NAME, Weights, find_weights
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.kokoro.conftest import real_voice

WEIGHTS = Weights("ab" * 32)


@dataclass
class FakePreparation:
    """A cache with a quick preparation in place of the real one, which takes 4 s."""

    cache: Path
    directories: list[Path] = field(default_factory=list)
    progress: list[str] = field(default_factory=list)

    def open(self) -> AbstractContextManager[PreparedModel]:
        return prepared_model(WEIGHTS, self.cache, self.progress.append, self.prepare)

    def prepare(self, weights: Weights, directory: Path) -> None:
        self.directories.append(directory)
        for name in ("acoustic.onnx", "vocoder.onnx"):
            (directory / name).write_text(f"{name} of {weights.sha256}")

    def contents(self, _number: int = 0) -> tuple[str, str]:
        with self.open() as graphs:
            return graphs.acoustic.read_text(), graphs.vocoder.read_text()


def test_the_model_is_prepared_once_and_announced(tmp_path: Path) -> None:
    fake = FakePreparation(tmp_path)
    assert fake.contents() == fake.contents()
    assert len(fake.directories) == 1
    assert fake.progress == ["Preparing the embedded voice (once, about 4 s) …"]


def test_a_damaged_cache_is_replaced(tmp_path: Path) -> None:
    for damage in ("truncate", "alter", "remove", "checksums"):
        fake = FakePreparation(tmp_path / damage)
        intact = fake.contents()
        path = next(fake.cache.rglob("SHA256SUMS" if damage == "checksums" else "vocoder.onnx"))
        if damage == "remove":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-3] + (b"???" if damage == "alter" else b""))
        assert fake.contents() == intact, damage
        assert len(fake.directories) == 2, damage
        assert [entry.name for entry in path.parent.parent.iterdir()] == [path.parent.name], damage


def test_concurrent_preparations_all_get_an_intact_model(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(FakePreparation(tmp_path).contents, range(16)))) == 1
    assert len(list(tmp_path.rglob("acoustic.onnx"))) == 1


def test_what_killed_preparations_left_is_removed_at_every_start(tmp_path: Path) -> None:
    fake = FakePreparation(tmp_path)
    fake.contents()
    home = next(tmp_path.rglob("acoustic.onnx")).parent
    for number in range(3):
        left = home.parent / f".preparing-{number}"
        left.mkdir()
        (left / "model.onnx").write_text("half of it")
    fake.contents()
    assert list(home.parent.iterdir()) == [home]


def test_the_model_is_usable_without_a_writable_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "file"
    file.write_text("not a directory")
    with caplog.at_level(logging.WARNING), FakePreparation(file).open() as graphs:
        assert graphs.acoustic.exists()
    assert not graphs.acoustic.exists()
    assert "cannot keep the prepared voice" in caplog.text


def test_a_full_disk_is_reported_with_what_is_needed_and_where(tmp_path: Path) -> None:
    def prepare(_weights: Weights, directory: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(ModelNotUsable) as refused, prepared_model(WEIGHTS, tmp_path, lambda line: None, prepare):
        pass
    for part in (str(tmp_path), "No space left on device", "300 MB", "XDG_CACHE_HOME", "TMPDIR"):
        assert part in refused.value.message
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_the_environment_sets_the_cache_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert user_cache_dir() == Path("/somewhere")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert user_cache_dir().is_absolute()


def test_a_file_that_is_not_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / MODEL_NAME).write_bytes(b"\xff" * 40)
    with (
        pytest.raises(ModelNotUsable, match="is not an ONNX model"),
        prepared_model(find_weights(tmp_path), tmp_path, lambda line: None),
    ):
        pass


@pytest.mark.slow
@real_voice
def test_two_processes_prepare_one_cache_at_the_same_time(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from realtime_tts.engine.models.kokoro.onnx_rewrite.prepare_model import prepared_model;"
        "from realtime_tts.engine.models.kokoro.weights import find_weights\n"
        "with prepared_model(find_weights(), pathlib.Path(sys.argv[1]), print) as graphs:"
        " print(graphs.vocoder.stat().st_size)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(prepare_model.__file__).parents[5])}
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    sizes = {process.communicate(timeout=120)[0].splitlines()[-1] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert len(sizes) == 1
    assert len(list(tmp_path.rglob("vocoder.onnx"))) == 1
