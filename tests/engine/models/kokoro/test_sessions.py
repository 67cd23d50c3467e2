"""A half of the model that cannot be loaded says which."""

import platform
from pathlib import Path

import pytest

from realtime_tts.engine.models.kokoro.sessions import give_back_memory, load_session
from realtime_tts.errors import ModelNotUsable


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "front.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(ModelNotUsable, match=r"cannot load front\.onnx"):
        load_session(path, threads=1)


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096 / 1024**2


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps memory in other ways")
def test_what_was_freed_goes_back_to_the_system() -> None:
    blocks = [bytearray(b"x") * 65_536 for _ in range(2_000)]
    kept = blocks[1::100]  # in between, so that no large piece is whole
    del blocks
    before = resident_mib()
    give_back_memory()
    assert resident_mib() < before - 64
    assert len(kept) == 20
