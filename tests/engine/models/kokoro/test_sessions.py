"""A half of the model that cannot be loaded says which."""

from pathlib import Path

import pytest

from realtime_tts.engine.models.kokoro.sessions import load_session
from realtime_tts.errors import ModelNotUsable


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "front.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(ModelNotUsable, match=r"cannot load front\.onnx"):
        load_session(path, threads=1)
