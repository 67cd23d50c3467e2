"""Conversions between bytes, samples and seconds, and the formats that are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.errors import UnsupportedFormat


def test_bytes_samples_and_seconds_agree() -> None:
    audio_format = AudioFormat.parse("pcm", 24_000)
    assert audio_format == AudioFormat(Encoding.PCM, 24_000)
    assert audio_format.samples_in(48_000) == 24_000
    assert audio_format.samples_in(3) == 1
    assert audio_format.seconds(12_000) == pytest.approx(0.5)
    assert [AudioFormat.parse(law, 8_000).samples_in(3) for law in ("pcm_mulaw", "pcm_alaw")] == [3, 3]


def test_the_samples_of_compressed_bytes_are_unknown() -> None:
    for name in ["opus", "flac", "mp3"]:
        with pytest.raises(ValueError, match="compressed"):
            AudioFormat.parse(name, 24_000).samples_in(100)


def test_rates_outside_the_range_are_refused() -> None:
    for name in [*Encoding]:
        for rate in [0, -1, 7999, 48_001, 10**400]:
            with pytest.raises(UnsupportedFormat, match="sample_rate") as caught:
                AudioFormat.parse(name, rate)
            assert len(caught.value.message) < 200, (rate, name)


def test_a_rate_that_a_format_does_not_support_is_refused_with_those_it_supports() -> None:
    for name, rate in [("opus", 44_100), ("opus", 8_001), ("mp3", 8_001), ("mp3", 47_999)]:
        with pytest.raises(UnsupportedFormat, match=rf"{name} supports 8000, .*12000, .*24000, .*48000 Hz, got {rate}"):
            AudioFormat.parse(name, rate)


@given(rate=st.integers(8_000, 48_000), name=st.sampled_from(["pcm", "wav", "pcm_mulaw", "pcm_alaw", "flac"]))
def test_the_other_formats_support_every_rate(name: str, rate: int) -> None:
    assert AudioFormat.parse(name, rate).sample_rate_hz == rate


def test_unknown_formats_are_refused_with_those_that_exist() -> None:
    for name in ["", "PCM", "AAC", "ogg", "\ud800", "x" * 10_000]:
        with pytest.raises(UnsupportedFormat, match="pcm, wav, pcm_mulaw, pcm_alaw, opus, flac, mp3, aac") as caught:
            AudioFormat.parse(name, AudioFormat.default_rate_hz(name, 24_000))
        assert len(caught.value.message) < 200, name


def test_the_default_rate_is_8000_for_g711_and_else_the_model_s_or_the_next_above() -> None:
    for name, model_rate, default in [
        ("pcm", 22_050, 22_050),
        ("flac", 22_050, 22_050),
        ("pcm_mulaw", 24_000, 8_000),
        ("pcm_alaw", 16_000, 8_000),
        ("opus", 24_000, 24_000),
        ("opus", 22_050, 24_000),
        ("opus", 44_100, 48_000),
        ("opus", 96_000, 48_000),
        ("mp3", 22_050, 22_050),
        ("mp3", 20_000, 22_050),
    ]:
        assert AudioFormat.default_rate_hz(name, model_rate) == default, (name, model_rate, default)


@given(name=st.sampled_from([*Encoding]), model_rate=st.integers(8_000, 48_000))
def test_the_default_rate_is_always_supported(name: Encoding, model_rate: int) -> None:
    AudioFormat(name, AudioFormat.default_rate_hz(name, model_rate))


def test_the_mime_type_names_the_rate_where_the_bytes_do_not_state_it() -> None:
    for name, rate, mime_type in [
        ("pcm", 24_000, "audio/pcm;rate=24000"),
        ("wav", 24_000, "audio/wav"),
        ("pcm_mulaw", 8_000, "audio/basic"),
        ("pcm_mulaw", 16_000, "audio/PCMU;rate=16000"),
        ("pcm_alaw", 8_000, "audio/PCMA;rate=8000"),
        ("opus", 24_000, "audio/ogg"),
        ("flac", 24_000, "audio/flac"),
        ("mp3", 24_000, "audio/mpeg"),
    ]:
        assert AudioFormat.parse(name, rate).mime_type == mime_type, (name, rate, mime_type)


def test_speech_is_mono() -> None:
    with pytest.raises(UnsupportedFormat, match="mono"):
        AudioFormat(Encoding.PCM, 24_000, channels=2)
