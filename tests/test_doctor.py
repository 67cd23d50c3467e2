"""The doctor finds what is wrong, and measures what is right."""

from pathlib import Path

import pytest

from realtime_tts.doctor import examine


@pytest.mark.model
def test_a_healthy_installation_is_told_how_many_listeners_it_holds() -> None:
    lines: list[str] = []
    assert examine({}, lines.append)
    assert any("voices verified" in line for line in lines)
    assert any("first sound after" in line for line in lines)
    assert any("listener" in line for line in lines)


def test_missing_weights_are_named_and_the_verdict_is_unhealthy(tmp_path: Path) -> None:
    lines: list[str] = []
    assert not examine({"model_dir": tmp_path}, lines.append)
    assert any(line.startswith("FAIL") and "model.onnx" in line for line in lines)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("realtime_tts.doctor.PACKAGES", ("no-such-package",))
    lines: list[str] = []
    assert not examine({"model_dir": tmp_path}, lines.append)
    assert any("no-such-package is not installed" in line for line in lines)
