"""A model tells of itself in the words of a session."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")

from realtime_tts.engine.api import Voice
from realtime_tts.engine.models import qwen3_tts
from realtime_tts.engine.models.qwen3_tts.about import CLONING_FIELDS, SAMPLING_FIELDS, language_name, model_name
from realtime_tts.engine.models.qwen3_tts.config import read_config
from realtime_tts.errors import InvalidConfig

GetWhole = Callable[[str], Path]


def test_a_custom_voice_has_speakers_with_a_mother_tongue(whole: GetWhole) -> None:
    info = qwen3_tts.info(whole("custom_voice"))
    spoken = [("vivian", "zh"), ("ryan", "en"), ("eric", "zh-CN"), ("dylan", "zh-CN")]
    assert info.voices == tuple(Voice(*each) for each in spoken)
    assert (info.default_voice, info.task_type, info.languages) == ("vivian", "CustomVoice", ("de", "en", "zh"))
    assert (info.sample_rate_hz, info.samples_per_frame) == (24_000, 1920)


@pytest.mark.parametrize(
    ("name", "task_type", "more"),
    [
        ("custom_voice", "CustomVoice", {"instructions"}),
        ("custom_voice_small", "CustomVoice", set()),
        ("voice_design", "VoiceDesign", {"instructions"}),
        ("base", "Base", CLONING_FIELDS),
    ],
)
def test_each_kind_of_model_honours_its_fields(whole: GetWhole, name: str, task_type: str, more: set[str]) -> None:
    info = qwen3_tts.info(whole(name))
    assert (info.task_type, info.fields) == (task_type, SAMPLING_FIELDS | more)
    assert info.silent_frames == (task_type == "CustomVoice")
    assert bool(info.voices) == (info.default_voice is not None) == (task_type == "CustomVoice")


def test_a_language_is_known_by_its_tag_or_its_name(whole: GetWhole) -> None:
    config = read_config(whole("custom_voice"))
    for tag in ("en", "en-US", "EN_gb", "english"):
        assert language_name(config, tag) == "english"
    assert language_name(config, None) is language_name(config, "und") is None


@pytest.mark.parametrize("tag", ["fr", "xx", "", "beijing_dialect", "beijing", "x" * 10_000])
def test_a_language_that_it_does_not_speak_is_refused_in_a_line(whole: GetWhole, tag: str) -> None:
    with pytest.raises(InvalidConfig, match="does not speak") as refused:
        language_name(read_config(whole("custom_voice")), tag)
    assert len(str(refused.value)) < 250


def test_a_published_directory_gives_its_name_and_any_other_what_it_holds(whole: GetWhole) -> None:
    config = read_config(whole("base"))
    assert model_name("Qwen3-TTS-12Hz-0.6B-Base", config) == "Qwen3-TTS-12Hz-0.6B-Base"
    assert model_name("3f9d0c", config) == model_name("qwen3 my model", config) == "Qwen3-TTS-12Hz-Base"
