"""On a CPU a lane has no stream, and can be entered again and again."""

import pytest

pytest.importorskip("torch")

import torch

from realtime_tts.engine.models.qwen3.lane_stream import LaneStream


def test_a_lane_on_a_cpu_can_be_entered_repeatedly() -> None:
    lane = LaneStream(torch.device("cpu"))
    for _ in range(2):
        with lane():
            assert torch.ones(2).sum() == 2
