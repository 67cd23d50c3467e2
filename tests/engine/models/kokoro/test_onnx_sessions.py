"""Tests of loading a graph, and of returning free memory to the system."""

import platform
from pathlib import Path

import pytest

from realtime_tts.engine.models.kokoro.onnx_sessions import load_session, return_free_memory
from realtime_tts.errors import ModelNotUsable


def test_a_file_that_is_not_a_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "acoustic.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(ModelNotUsable, match=r"cannot load acoustic\.onnx"):
        load_session(path, threads=1)


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096 / 1024**2


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps freed memory this way")
def test_freed_memory_returns_to_the_system() -> None:
    blocks = [bytearray(b"x") * 65_536 for _ in range(2_000)]
    kept = blocks[1::100]  # spread out, so that no large free block remains
    del blocks
    before = resident_mib()
    return_free_memory()
    assert resident_mib() < before - 64
    assert len(kept) == 20
