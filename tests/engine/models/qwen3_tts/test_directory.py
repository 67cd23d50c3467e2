"""A directory is taken as it is, a Hub id is downloaded, and anything else is refused in plain words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from realtime_tts.engine.models.qwen3_tts.directory import find_directory
from realtime_tts.errors import ModelNotUsable

HUB_ID = "Qwen/Qwen3-TTS-12Hz-0.6B-Base"


def never(name: str) -> str:
    raise AssertionError(f"{name} was downloaded")


def test_a_directory_is_taken_whatever_it_is_called(tmp_path: Path) -> None:
    for given in (tmp_path, str(tmp_path), tmp_path / "." / ".." / tmp_path.name):
        assert find_directory(given, print, never) == (Path(given), tmp_path.name)


@pytest.mark.parametrize("given", [HUB_ID, Path(HUB_ID)])
def test_a_hub_id_is_downloaded_and_gives_the_name(tmp_path: Path, given: str | Path) -> None:
    said: list[str] = []
    asked: list[str] = []

    def download(name: str) -> str:
        asked.append(name)
        return str(tmp_path)

    assert find_directory(given, said.append, download) == (tmp_path, "Qwen3-TTS-12Hz-0.6B-Base")
    assert asked == [HUB_ID]
    assert HUB_ID in said[0]


@pytest.mark.parametrize("given", ["nope", "/nope/nope", "a/b/c", "../x", "-x/y", "a/b\n", "http://a/b"])
def test_what_is_neither_is_refused(given: str) -> None:
    with pytest.raises(ModelNotUsable, match="is not a directory"):
        find_directory(given, print, never)


@pytest.mark.parametrize("given", [None, ""])
def test_without_a_model_dir_it_says_what_is_needed(given: str | None) -> None:
    with pytest.raises(ModelNotUsable, match=r"model_dir.*Qwen/Qwen3-TTS"):
        find_directory(given, print, never)


def test_what_cannot_be_downloaded_is_told_in_one_line() -> None:
    pytest.importorskip("huggingface_hub")
    code = (
        "from realtime_tts.engine.models.qwen3_tts import info\n"
        "from realtime_tts.errors import ModelNotUsable\n"
        "try: info('nobody/nothing')\n"
        "except ModelNotUsable as error: print(error)"
    )
    # In a process of its own: the package reads its environment once.
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=offline)
    assert done.stdout.startswith("nobody/nothing could not be downloaded: ")
    assert done.stdout.count("\n") == 1
