"""`ModelInfo` lists the voices, languages and request fields that a model supports."""

import pytest

pytest.importorskip("torch")

from realtime_tts.engine.api import Voice
from realtime_tts.engine.models import qwen3_tts
from realtime_tts.engine.models.qwen3_tts.config import read_config
from realtime_tts.engine.models.qwen3_tts.model_info import CLONING_FIELDS, SAMPLING_FIELDS, language_name, model_name
from realtime_tts.engine.voice_names import OPENAI_VOICES, QWEN3_TTS_VOICES
from realtime_tts.errors import InvalidConfig
from tests.engine.models.qwen3_tts.pipeline import GetWhole


def test_custom_voice_lists_its_speakers_with_their_native_languages(whole: GetWhole) -> None:
    info = qwen3_tts.info(whole("custom_voice"))
    expected = [("vivian", "zh"), ("ryan", "en"), ("eric", "zh-CN"), ("dylan", "zh-CN")]
    assert info.voices == tuple(Voice(*each) for each in expected)
    assert (info.default_voice, info.task_type, info.languages) == ("vivian", "CustomVoice", ("de", "en", "zh"))
    assert (info.sample_rate_hz, info.samples_per_frame) == (24_000, 1920)


def test_every_published_name_has_a_speaker_where_the_model_has_speakers(whole: GetWhole) -> None:
    info = qwen3_tts.info(whole("custom_voice"))
    for name in (*OPENAI_VOICES, *QWEN3_TTS_VOICES):
        assert info.find_voice(name) in info.voice_names, name
    assert [info.find_voice(name) for name in ("verse", "fable", "ryan", "Eric")] == ["vivian", "ryan", "ryan", "eric"]
    assert qwen3_tts.info(whole("base")).voice_aliases == {}


def test_each_model_type_supports_its_own_fields(whole: GetWhole) -> None:
    cases = [
        ("custom_voice", "CustomVoice", {"instructions"}),
        ("custom_voice_small", "CustomVoice", set()),
        ("voice_design", "VoiceDesign", {"instructions"}),
        ("base", "Base", CLONING_FIELDS),
    ]
    for name, task_type, fields in cases:
        info = qwen3_tts.info(whole(name))
        assert (info.task_type, info.fields) == (task_type, SAMPLING_FIELDS | fields), name
        assert info.silent_frames == (task_type == "CustomVoice"), name
        assert bool(info.voices) == (info.default_voice is not None) == (task_type == "CustomVoice"), name


def test_a_language_is_selected_by_its_tag_or_its_name(whole: GetWhole) -> None:
    config = read_config(whole("custom_voice"))
    for tag in ("en", "en-US", "EN_gb", "english"):
        assert language_name(config, tag) == "english"
    assert language_name(config, None) is language_name(config, "und") is None


def test_an_unsupported_language_is_rejected_with_a_short_message(whole: GetWhole) -> None:
    config = read_config(whole("custom_voice"))
    for tag in ("fr", "xx", "", "beijing_dialect", "beijing", "x" * 10_000):
        with pytest.raises(InvalidConfig, match="does not speak") as rejection:
            language_name(config, tag)
        assert len(str(rejection.value)) < 250


def test_a_directory_with_a_published_name_gives_the_model_its_name(whole: GetWhole) -> None:
    config = read_config(whole("base"))
    assert model_name("Qwen3-TTS-12Hz-0.6B-Base", config) == "Qwen3-TTS-12Hz-0.6B-Base"
    assert model_name("3f9d0c", config) == model_name("qwen3 my model", config) == "Qwen3-TTS-12Hz-Base"
