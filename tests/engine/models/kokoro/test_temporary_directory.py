"""A directory is removed after use, or by the next start if its process was killed; one in use never is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from realtime_tts.engine.models.kokoro import temporary_directory as module
from realtime_tts.engine.models.kokoro.temporary_directory import remove_abandoned, temporary_directory

ROOT = Path(module.__file__).parents[4]
HOLD = """
import sys, pathlib, time
from realtime_tts.engine.models.kokoro.temporary_directory import temporary_directory
with temporary_directory(pathlib.Path(sys.argv[1]), "part-") as directory:
    (directory / "weights").write_text("weights")
    print(directory, flush=True)
    time.sleep(60)
"""


def test_a_directory_exists_during_the_block(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), temporary_directory(tmp_path, "part-") as directory:  # noqa: PT012
        assert directory.parent == tmp_path
        assert directory.name.startswith("part-")
        (directory / "file").touch()
        remove_abandoned(tmp_path, "part-")
        assert (directory / "file").exists(), "in use"
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no flock")
def test_the_directory_of_a_killed_process_is_removed_and_that_of_a_running_one_is_not(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    killed, running = (subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2))
    try:
        of_killed, of_running = (Path(next(iter(each.stdout or ())).strip()) for each in (killed, running))
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        remove_abandoned(tmp_path, "part-")
        assert list(tmp_path.iterdir()) == [of_running]
        assert (of_running / "weights").exists()
        assert not of_killed.exists()
    finally:
        for process in (killed, running):
            process.kill()
            process.communicate()


@pytest.mark.skipif(sys.platform == "win32", reason="no flock")
def test_nothing_else_is_removed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "kept").mkdir(parents=True)
    parent = tmp_path / "parent"
    (parent / "other-1").mkdir(parents=True)
    (parent / "part-link").symlink_to(elsewhere)
    (parent / "part-file").touch()
    (parent / "part-old").mkdir()
    remove_abandoned(parent, "part-")
    assert sorted(path.name for path in parent.iterdir()) == ["other-1", "part-file", "part-link"]
    assert (elsewhere / "kept").exists()
    remove_abandoned(tmp_path / "missing", "part-")
