"""Embeddings of audio equal the reference's, for any length."""

import pytest

pytest.importorskip("torch")

from pathlib import Path

import torch

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_omni.audio_tower import audio_tokens, load_audio_tower
from realtime_tts.engine.models.qwen3_omni.config import read_config
from realtime_tts.engine.models.qwen3_omni.mel import log_mel
from tests.engine.models.qwen3_omni import inputs
from tests.engine.models.qwen3_omni.goldens import error


def test_embeddings_equal_the_reference(omni: Path) -> None:
    checkpoint = Checkpoint(omni, torch.device("cpu"), torch.float32)
    tower = load_audio_tower(checkpoint, read_config(omni).thinker_config.audio_config)
    for number, seconds in enumerate(inputs.CLIPS_S):
        mel = log_mel(inputs.speech(seconds, number))
        embeddings = tower(mel)
        assert len(embeddings) == audio_tokens(mel.shape[1])
        assert error(embeddings, f"audio_{number}/embeddings") <= 1e-4, seconds


def test_a_second_has_thirteen_embeddings_and_a_part_of_one_an_eighth_of_its_frames() -> None:
    assert [audio_tokens(frames) for frames in (1, 8, 9, 99, 100, 101, 930, 1000)] == [1, 1, 2, 13, 13, 14, 121, 130]
