"""A directory is used as it is, a Hub id is downloaded, and anything else is rejected."""

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


def test_a_directory_is_used_as_it_is(tmp_path: Path) -> None:
    for given in (tmp_path, str(tmp_path), tmp_path / "." / ".." / tmp_path.name):
        assert find_directory(given, print, never) == (Path(given), tmp_path.name)


def test_a_hub_id_is_downloaded_and_names_the_model(tmp_path: Path) -> None:
    for given in (HUB_ID, Path(HUB_ID)):
        lines: list[str] = []
        requested: list[str] = []

        def download(name: str, requested: list[str] = requested) -> str:
            requested.append(name)
            return str(tmp_path)

        assert find_directory(given, lines.append, download) == (tmp_path, "Qwen3-TTS-12Hz-0.6B-Base")
        assert requested == [HUB_ID]
        assert HUB_ID in lines[0]


def test_anything_else_is_rejected() -> None:
    for given in ("nope", "/nope/nope", "a/b/c", "../x", "-x/y", "a/b\n", "http://a/b"):
        with pytest.raises(ModelNotUsable, match="is not a directory"):
            find_directory(given, print, never)
    for missing in (None, ""):
        with pytest.raises(ModelNotUsable, match=r"model_dir.*Qwen/Qwen3-TTS"):
            find_directory(missing, print, never)


@pytest.mark.slow
def test_a_failed_download_is_reported_in_one_line() -> None:
    pytest.importorskip("huggingface_hub")
    code = (
        "from realtime_tts.engine.models.qwen3_tts import info\n"
        "from realtime_tts.errors import ModelNotUsable\n"
        "try: info('nobody/nothing')\n"
        "except ModelNotUsable as error: print(error)"
    )
    # In a process of its own, because the package reads its environment once.
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=offline)
    assert done.stdout.startswith("nobody/nothing could not be downloaded: ")
    assert done.stdout.count("\n") == 1
