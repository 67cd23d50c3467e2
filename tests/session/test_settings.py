"""`session.config`, field by field: partial, repeatable, refused whole or taken whole."""

import dataclasses
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.audio.format import AudioFormat
from realtime_tts.engine.api import Reference
from realtime_tts.engine.models import tone
from realtime_tts.errors import InvalidConfig, UnknownVoice, UnsupportedFormat
from realtime_tts.frontends.native.decode import to_configure
from realtime_tts.frontends.native.messages import ConfigInForce, SessionConfig
from realtime_tts.session.inputs import Configure
from realtime_tts.session.settings import SessionSettings, apply_config, uploaded_voice

INFO = tone.info()
DEFAULT = SessionSettings.default(INFO)


def config(*, unknown: tuple[str, ...] = (), **fields: Any) -> Configure:
    """By the names on the wire."""
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
def test_a_config_applied_twice_is_a_config_applied_once(fields: dict[str, Any]) -> None:
    change = config(**fields)
    once, _ = apply_config(DEFAULT, change, INFO)
    assert apply_config(once, change, INFO) == (once, ())


@given(configs, configs)
def test_absent_fields_stay_as_they_were(first: dict[str, Any], second: dict[str, Any]) -> None:
    apart, _ = apply_config(apply_config(DEFAULT, config(**first), INFO)[0], config(**second), INFO)
    together, _ = apply_config(DEFAULT, config(**{**first, **second}), INFO)
    assert apart == together


@given(configs)
def test_null_puts_every_field_back_to_its_default(fields: dict[str, Any]) -> None:
    changed, _ = apply_config(DEFAULT, config(**fields), INFO)
    back, _ = apply_config(changed, config(**cast(dict[str, Any], dict.fromkeys(fields))), INFO)
    assert back == DEFAULT


def test_a_client_that_asks_for_nothing_gets_whole_wav_files() -> None:
    assert DEFAULT.audio_format == AudioFormat.parse("wav", 24_000)
    assert not DEFAULT.stream_audio


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"voice": "nobody"}, UnknownVoice, "nobody"),
        ({"voice": "\ud800"}, UnknownVoice, "ud800"),
        ({"response_format": "tape"}, UnsupportedFormat, "tape"),
        ({"sample_rate": 7999}, UnsupportedFormat, "sample_rate"),
        ({"sample_rate": 10**300}, UnsupportedFormat, "sample_rate"),
        ({"language": "Klingon"}, InvalidConfig, "Klingon"),
        ({"speed": 0.2}, InvalidConfig, "speed"),
        ({"speed": float("nan")}, InvalidConfig, "speed"),
        ({"speed": float("inf")}, InvalidConfig, "speed"),
        ({"initial_codec_chunk_frames": 0}, InvalidConfig, "initial_codec_chunk_frames"),
        ({"initial_codec_chunk_frames": 10**300}, InvalidConfig, "initial_codec_chunk_frames"),
        ({"continuity_threshold_ms": -1}, InvalidConfig, "continuity_threshold_ms"),
    ],
    ids=str,
)
def test_a_bad_value_is_refused_by_the_name_of_its_field(
    fields: dict[str, Any], error: type[InvalidConfig], words: str
) -> None:
    with pytest.raises(error, match=words):
        apply_config(DEFAULT, config(**fields), INFO)


def test_speed_is_for_every_model_and_within_limits() -> None:
    slow = dataclasses.replace(INFO, fields=frozenset())
    assert apply_config(DEFAULT, config(speed=1.5), slow)[0].speed == 1.5
    for speed in (0.2, 4.1, float("nan")):
        with pytest.raises(InvalidConfig, match="speed"):
            apply_config(DEFAULT, config(speed=speed), slow)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("instructions", "Cheerfully."),
        ("ref_audio", "UklGRg=="),
        ("ref_text", "Hello."),
        ("x_vector_only_mode", True),
        ("speaker_embedding", (0.1, 0.2)),
        ("task_type", "Base"),
        ("split_granularity", "word"),
        ("max_buffer_delay_ms", -1.0),
        ("text_filters", ("markdown", "nonsense")),
        ("pronunciations", {"": "x"}),
        ("seed", -1),
        ("temperature", float("nan")),
        ("top_k", 0),
        ("top_p", 1.1),
        ("repetition_penalty", 0.0),
        ("max_new_tokens", 1),
        ("on_new_context", "shout"),
    ],
)
def test_what_a_model_cannot_honour_or_is_out_of_range_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidConfig, match=field):
        apply_config(DEFAULT, to_configure(msgspec.convert({field: value}, SessionConfig, strict=False)), INFO)


def test_sampling_is_harmless_to_a_model_that_does_not_sample() -> None:
    _, ignored = apply_config(DEFAULT, config(seed=1, temperature=0.7, top_p=None), INFO)
    assert ignored == ("seed", "temperature")
    sampler = dataclasses.replace(INFO, fields=frozenset({"seed", "temperature"}))
    settings, ignored = apply_config(DEFAULT, config(seed=1, temperature=0.7), sampler)
    assert (settings.sampling.seed, settings.sampling.temperature, ignored) == (1, 0.7, ())


def test_a_format_brings_its_own_rate_unless_one_is_asked_for() -> None:
    settings, _ = apply_config(DEFAULT, config(response_format="pcm_mulaw"), INFO)
    assert settings.audio_format.sample_rate_hz == 8000
    settings, _ = apply_config(settings, config(response_format="pcm"), INFO)
    assert settings.audio_format.sample_rate_hz == INFO.sample_rate_hz
    settings, _ = apply_config(settings, config(sample_rate=16_000), INFO)
    settings, _ = apply_config(settings, config(response_format="pcm_alaw"), INFO)
    assert settings.audio_format.sample_rate_hz == 16_000


CLONER = dataclasses.replace(INFO, fields=frozenset({"ref_audio", "ref_text", "x_vector_only_mode"}))
RECORDING = Reference("digest", np.zeros(24_000, np.float32), 24_000)


def test_a_recording_comes_with_its_text_or_as_a_timbre_alone() -> None:
    with pytest.raises(InvalidConfig, match="ref_text"):
        apply_config(DEFAULT, config(ref_audio="x"), CLONER, RECORDING)
    settings, _ = apply_config(DEFAULT, config(ref_audio="x", ref_text="Hello."), CLONER, RECORDING)
    assert settings.reference == dataclasses.replace(RECORDING, text="Hello.")
    assert settings.reference.key == "digest"
    settings, _ = apply_config(DEFAULT, config(ref_audio="x", x_vector_only_mode=True), CLONER, RECORDING)
    assert settings.reference is not None
    assert settings.reference.x_vector_only
    settings, _ = apply_config(settings, config(ref_audio=None), CLONER)
    assert settings.reference is None


def test_an_uploaded_voice_is_one_by_name_on_a_model_that_can_clone() -> None:
    anna = dataclasses.replace(RECORDING, key="anna", text="Hello.")
    assert uploaded_voice(config(voice="anna"), CLONER) == "anna"
    assert uploaded_voice(config(voice="anna"), INFO) is None, "it cannot clone"
    assert uploaded_voice(config(voice="tone_low"), CLONER) is None, "its own"
    with pytest.raises(UnknownVoice):
        apply_config(DEFAULT, config(voice="anna"), INFO)
    with pytest.raises(UnknownVoice):
        apply_config(DEFAULT, config(voice="anna"), CLONER)
    settings, _ = apply_config(DEFAULT, config(voice="anna"), CLONER, anna)
    assert (settings.voice, settings.reference) == ("anna", anna)
    still, _ = apply_config(settings, config(speed=1.1), CLONER)
    assert (still.voice, still.reference) == ("anna", anna)
    low, _ = apply_config(still, config(voice="tone_low"), CLONER)
    assert (low.voice, low.reference) == ("tone_low", None)


def test_an_uploaded_voice_without_its_text_gives_its_timbre_alone() -> None:
    settings, _ = apply_config(DEFAULT, config(voice="anna"), CLONER, RECORDING)
    assert settings.reference is not None
    assert settings.reference.x_vector_only


def test_every_field_of_a_config_is_shown_in_force() -> None:
    fields = set(SessionConfig.__struct_fields__) - {"speaker"}
    assert fields == set(ConfigInForce.__struct_fields__)


def test_speaker_is_another_word_for_voice() -> None:
    assert apply_config(DEFAULT, config(speaker="tone_high"), INFO)[0].voice == "tone_high"


def test_what_changes_nothing_is_listed_as_ignored() -> None:
    settings, ignored = apply_config(DEFAULT, config(seed=1, unknown=("sneed",)), INFO)
    assert ignored == ("sneed", "seed")
    assert settings.voice == DEFAULT.voice
