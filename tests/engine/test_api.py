"""What a session sees of an engine."""

import pytest

from realtime_tts.engine.api import ModelInfo, SynthesisMetrics, Voice

VOICES = (Voice("a", "en-US"), Voice("b", "en-GB"))


def info(default_voice: str | None) -> ModelInfo:
    return ModelInfo("m", 24_000, 1920, VOICES, default_voice)


def test_a_model_declares_its_voices_and_the_length_of_a_frame() -> None:
    assert info("b").voice_names == ("a", "b")
    assert info(None).frame_s == pytest.approx(0.08)


def test_a_default_voice_must_exist() -> None:
    with pytest.raises(ValueError, match="'c'"):
        info("c")


def test_rtf_is_work_by_audio_and_nothing_where_there_is_no_audio() -> None:
    assert SynthesisMetrics(0.1, 0.5, 2.0, 3, 2).rtf == pytest.approx(0.25)
    assert SynthesisMetrics(0.1, 0.5, 0.0, 0, 2).rtf is None


def test_a_model_that_omits_samples_reports_no_word_times() -> None:
    ModelInfo("m", 24_000, 1920, (), None, silent_frames=1)
    with pytest.raises(ValueError, match="count from the first sample"):
        ModelInfo("m", 24_000, 1920, (), None, silent_frames=1, fields=frozenset({"word_timestamps"}))
