"""Which GPU a replica uses."""

from pathlib import Path

import pytest

from realtime_tts.cluster.gpus import gpu_environment, visible_gpus


def test_gpus_are_those_of_the_variable_or_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus(tmp_path) == ()
    for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert visible_gpus(tmp_path) == ("0", "2", "10")
    for value, expected in {"": (), "-1": (), "1,3": ("1", "3"), "GPU-ab": ("GPU-ab",)}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert visible_gpus(tmp_path) == expected, value


def test_replicas_take_gpus_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    assert [gpu_environment(index)["CUDA_VISIBLE_DEVICES"] for index in range(3)] == ["4", "5", "4"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpu_environment(0) == {}
