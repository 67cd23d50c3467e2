"""Session settings: partial and repeated changes, valid ranges, fields that a model does not have."""

import dataclasses
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.audio.format import AudioFormat
from realtime_tts.engine.api import ModelInfo, Reference
from realtime_tts.engine.models import tone
from realtime_tts.errors import InvalidConfig, UnknownVoice, UnsupportedFormat
from realtime_tts.frontends.native.decode import to_configure
from realtime_tts.frontends.native.messages import ConfigInForce, SessionConfig
from realtime_tts.session.inputs import Configure
from realtime_tts.session.settings import SessionSettings, apply_config, uploaded_voice

INFO = tone.info()
DEFAULT = SessionSettings.default(INFO)


def config(*, unknown: tuple[str, ...] = (), **fields: Any) -> Configure:
    """A `Configure` from the names that protocol.md uses."""
    return to_configure(SessionConfig(**fields), unknown)


valid_fields: dict[str, st.SearchStrategy[Any]] = {
    "voice": st.sampled_from(INFO.voice_names),
    "language": st.sampled_from(["Auto", "auto", "en", "en-US", "English"]),
    "response_format": st.sampled_from(["pcm", "wav"]),
    "sample_rate": st.integers(8000, 48_000),
    "stream_audio": st.booleans(),
    "speed": st.floats(0.25, 4.0),
    "initial_codec_chunk_frames": st.integers(1, 1000),
    "continuity_threshold_ms": st.floats(0, 60_000),
}
configs = st.fixed_dictionaries({}, optional=valid_fields)


@given(configs)
@settings(max_examples=50)
def test_applying_a_config_twice_is_the_same_as_once(fields: dict[str, Any]) -> None:
    change = config(**fields)
    once, _ = apply_config(DEFAULT, change, INFO)
    assert apply_config(once, change, INFO) == (once, ())


@given(configs, configs)
@settings(max_examples=50)
def test_absent_fields_keep_their_value(first: dict[str, Any], second: dict[str, Any]) -> None:
    apart, _ = apply_config(apply_config(DEFAULT, config(**first), INFO)[0], config(**second), INFO)
    together, _ = apply_config(DEFAULT, config(**{**first, **second}), INFO)
    assert apart == together


@given(configs)
@settings(max_examples=50)
def test_null_restores_the_default_of_every_field(fields: dict[str, Any]) -> None:
    changed, _ = apply_config(DEFAULT, config(**fields), INFO)
    back, _ = apply_config(changed, config(**cast(dict[str, Any], dict.fromkeys(fields))), INFO)
    assert back == DEFAULT


def test_the_default_is_whole_wav_files() -> None:
    assert DEFAULT.audio_format == AudioFormat.parse("wav", 24_000)
    assert not DEFAULT.stream_audio


def refusal(fields: dict[str, Any], info: ModelInfo = INFO) -> InvalidConfig:
    """The error that a config with `fields` raises."""
    with pytest.raises(InvalidConfig) as caught:
        apply_config(DEFAULT, to_configure(msgspec.convert(fields, SessionConfig, strict=False)), info)
    return caught.value


def test_custom_voice_is_what_a_model_with_voices_does() -> None:
    assert apply_config(DEFAULT, config(task_type="CustomVoice"), INFO)[0] == DEFAULT
    without_voices = dataclasses.replace(INFO, voices=(), default_voice=None)
    designer = dataclasses.replace(INFO, task_type="VoiceDesign")
    for info, task_type in ((INFO, "Base"), (INFO, "VoiceDesign"), (INFO, "customvoice"), (INFO, "")):
        assert refusal({"task_type": task_type}, info).param == "task_type", task_type
    for info in (without_voices, designer):
        assert refusal({"task_type": "CustomVoice"}, info).param == "task_type", info.task_type
    assert apply_config(DEFAULT, config(task_type="VoiceDesign"), designer)[0] == DEFAULT


def test_an_initial_chunk_of_zero_frames_leaves_it_to_the_server() -> None:
    changed, _ = apply_config(DEFAULT, config(initial_codec_chunk_frames=5), INFO)
    assert changed.initial_codec_chunk_frames == 5
    assert apply_config(changed, config(initial_codec_chunk_frames=0), INFO)[0] == DEFAULT


def test_a_language_has_the_names_that_public_clients_send() -> None:
    polyglot = dataclasses.replace(INFO, languages=("zh", "ja"))
    for name, primary in (("Chinese", "zh"), ("Japanese", "ja"), ("English", "en"), ("zh-CN", "zh"), ("Auto", None)):
        assert apply_config(DEFAULT, config(language=name), polyglot)[0].primary_language == primary, name
    assert refusal({"language": "Chinese"}).param == "language"


def test_an_invalid_value_is_rejected_with_its_field_and_value() -> None:
    cases: list[tuple[dict[str, Any], type[InvalidConfig], str]] = [
        ({"voice": "unknown"}, UnknownVoice, "'unknown'"),
        ({"voice": "\ud800"}, UnknownVoice, "\ufffd"),
        ({"response_format": "tape"}, UnsupportedFormat, "tape"),
        ({"sample_rate": 7999}, UnsupportedFormat, "7999"),
        ({"sample_rate": 10**300}, UnsupportedFormat, "1000"),
        ({"language": "Klingon"}, InvalidConfig, "Klingon"),
        ({"speed": 0.2}, InvalidConfig, "0.2"),
        ({"speed": float("nan")}, InvalidConfig, "nan"),
        ({"speed": float("inf")}, InvalidConfig, "inf"),
        ({"initial_codec_chunk_frames": -1}, InvalidConfig, "-1"),
        ({"initial_codec_chunk_frames": 10**300}, InvalidConfig, "1000"),
        ({"continuity_threshold_ms": -1}, InvalidConfig, "-1"),
    ]
    for fields, error, value in cases:
        raised = refusal(fields)
        assert type(raised) is error, fields
        assert raised.param in fields, fields
        assert value in raised.message, fields


def test_every_model_accepts_a_speed_within_limits() -> None:
    without_speed = dataclasses.replace(INFO, fields=frozenset())
    assert apply_config(DEFAULT, config(speed=1.5), without_speed)[0].speed == 1.5
    for speed in (0.2, 4.1, float("nan")):
        assert refusal({"speed": speed}, without_speed).param == "speed", speed


def test_unsupported_fields_and_values_out_of_range_are_rejected_with_the_field() -> None:
    cases: dict[str, object] = {
        "instructions": "Cheerfully.",
        "ref_audio": "UklGRg==",
        "ref_text": "Hello.",
        "x_vector_only_mode": True,
        "speaker_embedding": (0.1, 0.2),
        "task_type": "Base",
        "split_granularity": "word",
        "max_buffer_delay_ms": -1.0,
        "text_filters": ("markdown", "nonsense"),
        "pronunciations": {"": "x"},
        "seed": -1,
        "temperature": float("nan"),
        "top_k": 0,
        "top_p": 1.1,
        "repetition_penalty": 0.0,
        "max_new_tokens": 1,
        "on_new_context": "shout",
    }
    for field, value in cases.items():
        assert refusal({field: value}).param == field, field


def test_sampling_fields_are_ignored_by_a_model_that_does_not_sample() -> None:
    _, ignored = apply_config(DEFAULT, config(seed=1, temperature=0.7, top_p=None), INFO)
    assert ignored == ("seed", "temperature")
    sampler = dataclasses.replace(INFO, fields=frozenset({"seed", "temperature"}))
    changed, ignored = apply_config(DEFAULT, config(seed=1, temperature=0.7), sampler)
    assert (changed.sampling.seed, changed.sampling.temperature, ignored) == (1, 0.7, ())


def test_a_format_has_a_default_rate_unless_one_is_configured() -> None:
    changed, _ = apply_config(DEFAULT, config(response_format="pcm_mulaw"), INFO)
    assert changed.audio_format.sample_rate_hz == 8000
    changed, _ = apply_config(changed, config(response_format="pcm"), INFO)
    assert changed.audio_format.sample_rate_hz == INFO.sample_rate_hz
    changed, _ = apply_config(changed, config(sample_rate=16_000), INFO)
    changed, _ = apply_config(changed, config(response_format="pcm_alaw"), INFO)
    assert changed.audio_format.sample_rate_hz == 16_000


CLONER = dataclasses.replace(INFO, fields=frozenset({"ref_audio", "ref_text", "x_vector_only_mode"}))
RECORDING = Reference("digest", np.zeros(24_000, np.float32), 24_000)


def test_a_recording_needs_its_transcript_or_x_vector_only_mode() -> None:
    with pytest.raises(InvalidConfig, match="ref_text"):
        apply_config(DEFAULT, config(ref_audio="x"), CLONER, RECORDING)
    changed, _ = apply_config(DEFAULT, config(ref_audio="x", ref_text="Hello."), CLONER, RECORDING)
    assert changed.reference == dataclasses.replace(RECORDING, text="Hello.")
    assert changed.reference.key == "digest"
    changed, _ = apply_config(DEFAULT, config(ref_audio="x", x_vector_only_mode=True), CLONER, RECORDING)
    assert changed.reference is not None
    assert changed.reference.x_vector_only
    changed, _ = apply_config(changed, config(ref_audio=None), CLONER)
    assert changed.reference is None


def test_an_uploaded_voice_is_selected_by_name_on_a_model_that_clones() -> None:
    anna = dataclasses.replace(RECORDING, key="anna", text="Hello.")
    assert uploaded_voice(config(voice="anna"), CLONER) == "anna"
    assert uploaded_voice(config(voice="anna"), INFO) is None, "the model does not clone"
    assert uploaded_voice(config(voice="tone_low"), CLONER) is None, "a voice of the model"
    with pytest.raises(UnknownVoice):
        apply_config(DEFAULT, config(voice="anna"), INFO)
    with pytest.raises(UnknownVoice):
        apply_config(DEFAULT, config(voice="anna"), CLONER)
    changed, _ = apply_config(DEFAULT, config(voice="anna"), CLONER, anna)
    assert (changed.voice, changed.reference) == ("anna", anna)
    still, _ = apply_config(changed, config(speed=1.1), CLONER)
    assert (still.voice, still.reference) == ("anna", anna)
    low, _ = apply_config(still, config(voice="tone_low"), CLONER)
    assert (low.voice, low.reference) == ("tone_low", None)


def test_an_uploaded_voice_without_a_transcript_uses_x_vector_only_mode() -> None:
    changed, _ = apply_config(DEFAULT, config(voice="anna"), CLONER, RECORDING)
    assert changed.reference is not None
    assert changed.reference.x_vector_only


def test_every_field_is_part_of_the_config_in_force() -> None:
    fields = set(SessionConfig.__struct_fields__) - {"speaker", "streaming_mode", "turn_detection"}
    assert fields == set(ConfigInForce.__struct_fields__)


def test_an_alias_selects_the_voice_that_it_stands_for() -> None:
    changed, _ = apply_config(DEFAULT, config(voice="Nova"), INFO)
    assert (changed.voice, changed.text_language(INFO)) == ("tone_high", "en")
    uploaded = dataclasses.replace(CLONER, voice_aliases={"me": "anna", "low": "tone_low"})
    assert uploaded_voice(config(voice="me"), uploaded) == "anna"
    assert uploaded_voice(config(voice="low"), uploaded) is None


def test_a_voice_is_ignored_where_instructions_make_the_voice() -> None:
    designer = dataclasses.replace(INFO, voices=(), default_voice=None, fields=frozenset({"instructions"}))
    settings, ignored = apply_config(SessionSettings.default(designer), config(voice="alloy"), designer)
    assert (settings.voice, ignored) == (None, ("voice",))


def test_speaker_is_another_name_of_voice() -> None:
    assert apply_config(DEFAULT, config(speaker="tone_high"), INFO)[0].voice == "tone_high"


def test_unknown_and_unsupported_fields_are_reported_as_ignored() -> None:
    changed, ignored = apply_config(DEFAULT, config(seed=1, unknown=("sneed",)), INFO)
    assert ignored == ("sneed", "seed")
    assert changed.voice == DEFAULT.voice
