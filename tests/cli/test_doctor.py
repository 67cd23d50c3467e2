"""The doctor finds what is wrong, and measures what is right."""

import importlib.util
from pathlib import Path

import pytest
from typer.testing import CliRunner

from realtime_tts.cli import doctor
from realtime_tts.cli import main as cli
from realtime_tts.cli.doctor import PACKAGES_OF, examine
from realtime_tts.engine import models

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")


def doctor_command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, ["doctor", *arguments], terminal_width=300)
    return result.exit_code, result.output


@pytest.mark.model
def test_a_healthy_installation_is_told_how_many_listeners_it_holds() -> None:
    lines: list[str] = []
    assert examine("kokoro", {}, lines.append)
    assert any("voices verified" in line for line in lines)
    assert any("first sound after" in line for line in lines)
    assert any("listener" in line for line in lines)


def test_any_model_that_can_be_built_is_measured() -> None:
    status, output = doctor_command("--model", "tone", "--set", "max_batch=2")
    assert status == 0
    assert "2 voices verified" in output
    assert "listeners at once" in output


def test_missing_weights_are_named_and_the_verdict_is_unhealthy(tmp_path: Path) -> None:
    lines: list[str] = []
    assert not examine("kokoro", {"model_dir": tmp_path}, lines.append)
    assert any(line.startswith("FAIL") and "model.onnx" in line for line in lines)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realtime_tts.cli.doctor.PACKAGES", ("no-such-package",))
    lines: list[str] = []
    assert not examine("tone", {}, lines.append)
    assert any("no-such-package is not installed" in line for line in lines)
    assert any("listener" in line for line in lines)  # all else is looked at


@pytest.mark.parametrize("model", PACKAGES_OF)
def test_without_what_a_model_needs_it_is_not_even_tried(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realtime_tts.cli.doctor.PACKAGES_OF", {model: ("no-such-package",)})
    lines: list[str] = []
    assert not examine(model, {"no such option": 1}, lines.append)
    assert lines[-1] == "FAIL  no-such-package is not installed: pip install no-such-package"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "tone", "--set", "fast=1"], "no option fast"),
        (["--model", "nope"], "there is no model 'nope'"),
        pytest.param(["--model", "qwen3_tts", "--set", "fast=1"], "no option fast", marks=needs_torch),
        pytest.param(["--model", "qwen3_tts", "--set", "dtype=int8"], "dtype must be", marks=needs_torch),
        pytest.param(["--model", "some/where"], "some/where is not a directory", marks=needs_torch),
    ],
    ids=str,
)
def test_what_cannot_be_is_told_and_the_verdict_is_unhealthy(arguments: list[str], words: str) -> None:
    status, output = doctor_command(*arguments)
    assert status == 1
    assert words in output.splitlines()[-1]
    assert output.splitlines()[-1].startswith("FAIL")


def test_the_size_of_a_gpu_is_of_no_use_to_a_model_on_the_cpu() -> None:
    status, output = doctor_command("--model", "tone", "--gpu-memory-gb", "16")
    assert status == 2
    assert "is for Qwen3-TTS" in output


@needs_torch
def test_the_published_sizes_are_told_without_a_directory() -> None:
    status, output = doctor_command("--model", models.LOADS_DIRECTORIES, "--gpu-memory-gb", "24")
    assert status == 0
    lines = output.splitlines()
    assert [line for line in lines if line.startswith("ok    torch ")]
    assert lines[-1].split()[:2] == ["24", "GB"]
    assert len(lines[-1].split()) == 6  # as many as there are sizes and kinds
    assert doctor.PACKAGES[0] in output
