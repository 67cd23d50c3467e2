"""What the bytes mean, and which formats are refused."""

import pytest

from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.errors import UnsupportedFormat


def test_bytes_samples_and_seconds_agree() -> None:
    audio_format = AudioFormat.parse("pcm", 24_000)
    assert audio_format == AudioFormat(Encoding.PCM, 24_000)
    assert audio_format.samples_in(48_000) == 24_000
    assert audio_format.samples_in(3) == 1
    assert audio_format.seconds(12_000) == pytest.approx(0.5)


@pytest.mark.parametrize("rate", [0, -1, 7999, 48_001, 10**400])
def test_rates_outside_the_range_are_refused(rate: int) -> None:
    with pytest.raises(UnsupportedFormat, match="sample_rate"):
        AudioFormat.parse("pcm", rate)


@pytest.mark.parametrize("name", ["", "PCM", "mp3", "\ud800", "x" * 10_000])
def test_unknown_formats_are_refused_with_those_that_exist(name: str) -> None:
    with pytest.raises(UnsupportedFormat, match="pcm, wav") as caught:
        AudioFormat.parse(name, 24_000)
    assert len(caught.value.message) < 200


def test_speech_is_mono() -> None:
    with pytest.raises(UnsupportedFormat, match="mono"):
        AudioFormat(Encoding.PCM, 24_000, channels=2)
