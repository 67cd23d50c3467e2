"""What a session sees of an engine."""

from dataclasses import replace

import pytest

from realtime_tts.engine import models
from realtime_tts.engine.api import ModelInfo, SynthesisMetrics, Voice
from realtime_tts.engine.voice_names import OPENAI_VOICES, QWEN3_TTS_VOICES
from realtime_tts.errors import InvalidConfig, UnknownVoice

VOICES = (Voice("a", "en-US"), Voice("b", "en-GB"))


def info(default_voice: str | None) -> ModelInfo:
    return ModelInfo("m", 24_000, 1920, VOICES, default_voice)


def test_a_model_declares_its_voices_and_the_length_of_a_frame() -> None:
    assert info("b").voice_names == ("a", "b")
    assert info(None).frame_s == pytest.approx(0.08)


def test_a_default_voice_must_exist() -> None:
    with pytest.raises(ValueError, match="'c'"):
        info("c")


MIXER = replace(info("a"), voice_aliases={"nova": "b", "b": "a", "both": "a+b"}, mixes_voices=True)


def test_a_voice_is_found_by_its_name_an_alias_or_as_a_mix_and_a_voice_has_priority() -> None:
    for name, expected in (
        ("a", "a"),
        ("A", "a"),
        ("b", "b"),
        ("nova", "b"),
        ("Nova", "b"),
        ("a+b", "a(1)+b(1)"),
        ("Nova(2) + a", "b(2)+a(1)"),
        ("both", "a(1)+b(1)"),
        ("a(2)", "a"),
    ):
        assert MIXER.find_voice(name) == expected, name


def test_an_unknown_voice_is_refused_and_the_message_says_where_voices_are_listed() -> None:
    for model, name in ((MIXER, "c"), (MIXER, "a+c"), (MIXER, "both+a"), (replace(MIXER, mixes_voices=False), "a+b")):
        with pytest.raises(UnknownVoice, match="GET /v1/audio/voices") as refused:
            model.find_voice(name)
        assert refused.value.param == "voice", name
    with pytest.raises(InvalidConfig, match="weight of a"):
        MIXER.find_voice("a(0)+b")


def test_a_mix_has_the_language_of_its_first_voice() -> None:
    assert [MIXER.language_of(voice) for voice in ("b", "b(1)+a(2)", "c")] == ["en-GB", "en-GB", None]


def test_the_models_have_a_voice_for_every_published_name() -> None:
    for model in ("tone", "kokoro"):
        described = models.info(model)
        for name in (*OPENAI_VOICES, *QWEN3_TTS_VOICES):
            assert described.find_voice(name) in described.voice_names, (model, name)


def test_rtf_is_work_by_audio_and_nothing_where_there_is_no_audio() -> None:
    assert SynthesisMetrics(0.1, 0.5, 2.0, 3, 2).rtf == pytest.approx(0.25)
    assert SynthesisMetrics(0.1, 0.5, 0.0, 0, 2).rtf is None


def test_a_model_that_omits_samples_reports_no_word_times() -> None:
    ModelInfo("m", 24_000, 1920, (), None, silent_frames=1)
    with pytest.raises(ValueError, match="count from the first sample"):
        ModelInfo("m", 24_000, 1920, (), None, silent_frames=1, fields=frozenset({"word_timestamps"}))
