"""A model is described by its configuration: its voices, and what it accepts."""

import pytest

pytest.importorskip("torch")

from pathlib import Path

from realtime_tts.engine.models.qwen3_omni.config import read_config
from realtime_tts.engine.models.qwen3_omni.model_info import describe, model_name
from tests.engine.models.qwen3_omni.make_checkpoint import make_checkpoint


def test_a_model_has_the_voices_of_its_speakers(omni: Path) -> None:
    info = describe(read_config(omni), "Qwen3-Omni", frozenset({"audio"}))
    assert info.voice_names == ("chelsie", "ethan", "aiden")
    assert info.default_voice == "ethan"
    assert (info.samples_per_frame, info.sample_rate_hz, info.input_rate_hz) == (1920, 24_000, 16_000)
    assert "seed" in info.fields
    assert not info.reads_ahead


def test_a_model_without_speech_has_no_voice(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, text_only=True)
    info = describe(read_config(tmp_path), "Qwen3-Omni", frozenset({"image"}))
    assert not info.voices
    assert not info.languages
    assert info.default_voice is None
    assert info.input_rate_hz is None


def test_a_directory_names_its_model_if_it_looks_like_a_published_one() -> None:
    assert model_name("Qwen3-Omni-30B-A3B-Instruct") == "Qwen3-Omni-30B-A3B-Instruct"
    assert model_name("tmp 5") == "Qwen3-Omni"
