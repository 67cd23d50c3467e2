"""`doctor` lists the parts of a directory, their sizes and what fits, without reading weights."""

import pytest

pytest.importorskip("torch")

from pathlib import Path
from typing import Any

from realtime_tts.engine.models.qwen3_omni import MODEL
from realtime_tts.engine.models.qwen3_omni.check import check_installation
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.qwen3_omni.make_checkpoint import make_checkpoint


def report_of(gpu_memory_gb: float | None = None, **options: Any) -> list[str]:
    lines: list[str] = []
    check_installation(MODEL.complete_options({"device": "cpu"} | options), gpu_memory_gb, lines.append)
    return lines


def test_a_directory_is_listed_by_its_parts(omni: Path) -> None:
    lines = report_of(model_dir=omni)
    for part in ("Thinker", "audio tower", "vision tower", "Talker", "code predictor", "Code2Wav"):
        assert any(line.startswith(f"ok    {part}: 0.00") for line in lines), part
    assert any("a conversation: " in line for line in lines)
    assert any(line.startswith("SLOW") for line in lines)
    assert lines[-1].split()[:2] == ["141", "GB"]


def test_a_gpu_of_a_given_size_is_reported_alone(omni: Path) -> None:
    lines = report_of(24, model_dir=omni)
    assert lines[-1].split()[:2] == ["24", "GB"]
    assert not any("141 GB" in line for line in lines)


def test_without_a_directory_the_published_sizes_are_reported() -> None:
    assert "ok    Thinker: 30.533 G values, 56.87 GiB" in report_of()


def test_what_prevents_use_is_refused(omni: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotUsable, match="is not a directory"):
        report_of(model_dir=tmp_path / "nope")
    with pytest.raises(ModelNotUsable, match="thinker_max_len: at most 4096"):
        report_of(model_dir=omni, thinker_max_len=5000)
    make_checkpoint(tmp_path)
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ModelNotUsable, match="model-00002"):
        report_of(model_dir=tmp_path)


def test_a_model_without_speech_is_reported(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, text_only=True)
    assert any("text alone" in line for line in report_of(model_dir=tmp_path))
