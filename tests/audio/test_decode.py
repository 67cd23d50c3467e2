"""Received recordings are decoded, or refused with a reason and at little cost."""

import base64
import contextlib
import io
import struct
import tracemalloc

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.audio.decode import AudioUrl, decode_audio, parse_ref_audio
from realtime_tts.audio.pcm import Float32
from realtime_tts.errors import InvalidConfig

LIMITS = {"max_bytes": 1_000_000, "max_s": 5.0}


def tone(seconds: float = 1.0, rate_hz: int = 24_000, hz: float = 440.0) -> Float32:
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate_hz)) / rate_hz)).astype(np.float32)


def file_of(samples: Float32, rate_hz: int = 24_000, kind: str = "WAV", subtype: str | None = None) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, rate_hz, format=kind, subtype=subtype)
    return out.getvalue()


def raw_wav(data: bytes, *, rate_hz: int = 24_000, channels: int = 1, bits: int = 16, kind: int = 1) -> bytes:
    frame = channels * bits // 8
    head = struct.pack("<IHHIIHH", 16, kind, channels, rate_hz, min(rate_hz * frame, 2**32 - 1), frame, bits)
    body = b"WAVEfmt " + head + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def reason(data: bytes, **limits: float) -> str:
    with pytest.raises(InvalidConfig) as refused:
        decode_audio(data, **{**LIMITS, **limits})  # type: ignore[arg-type]
    assert refused.value.message.startswith("ref_audio: ")
    return refused.value.message


FILES = {
    "wav": file_of(tone()),
    "wav24": file_of(tone(), subtype="PCM_24"),
    "wav_float": file_of(tone(), subtype="FLOAT"),
    "wavex": file_of(tone(), kind="WAVEX"),
    "flac": file_of(tone(), kind="FLAC"),
    "vorbis": file_of(tone(), kind="OGG", subtype="VORBIS"),
    "opus": file_of(tone(), kind="OGG", subtype="OPUS"),
    "mp3": file_of(tone(), kind="MP3"),
}


def test_every_format_is_decoded() -> None:
    for kind in FILES:
        samples, rate_hz = decode_audio(FILES[kind], max_bytes=1_000_000, max_s=5.0)
        assert samples.dtype == np.float32, kind
        assert rate_hz in (24_000, 48_000), kind
        assert len(samples) / rate_hz == pytest.approx(1.0, abs=0.06), kind  # mp3 has a delay of its own
        spectrum = np.abs(np.fft.rfft(samples[rate_hz // 10 : -rate_hz // 10]))
        measured_hz = np.argmax(spectrum) * rate_hz / (len(samples) - 2 * (rate_hz // 10))
        assert measured_hz == pytest.approx(440.0, abs=3), kind
        assert np.abs(samples).max() == pytest.approx(0.5, abs=0.1), kind


def test_blocks_are_joined_without_a_discontinuity() -> None:
    for kind in FILES:
        noise = np.random.default_rng(3).uniform(-0.3, 0.3, 100_000).astype(np.float32)
        subtype = {"vorbis": "VORBIS", "opus": "OPUS", "wav24": "PCM_24", "wav_float": "FLOAT"}.get(kind)
        container = {"vorbis": "OGG", "opus": "OGG", "wav24": "WAV", "wav_float": "WAV"}.get(kind, kind.upper())
        data = file_of(noise, kind=container, subtype=subtype)
        at_once, _rate_hz = soundfile.read(io.BytesIO(data), dtype="float32")
        samples, _rate_hz = decode_audio(data, max_bytes=1_000_000, max_s=5.0)
        np.testing.assert_allclose(samples, at_once, atol=1e-6)


def test_channels_are_mixed() -> None:
    stereo = np.stack([tone(), -0.5 * tone()], axis=1)
    samples, _rate_hz = decode_audio(file_of(stereo), max_bytes=1_000_000, max_s=5.0)
    np.testing.assert_allclose(samples, 0.25 * tone(), atol=1e-4)


def test_a_file_of_the_greatest_length_is_decoded_and_one_sample_more_is_refused() -> None:
    assert len(decode_audio(file_of(tone(5.0)), max_bytes=1_000_000, max_s=5.0)[0]) == 120_000
    assert "longer than 5 s" in reason(file_of(np.append(tone(5.0), np.float32(0))))


def test_too_many_bytes_are_refused() -> None:
    assert "at most 1000 bytes" in reason(b"RIFF" + bytes(2000), max_bytes=1000)


def test_fragments_are_refused() -> None:
    for data in [b"", b"R", b"RIFF", b"\xff", b"\xff\xfb", b"ID3", b"fLaC", b"OggS", b"{}" * 100]:
        reason(data)


def test_other_formats_are_refused() -> None:
    for kind in ["AIFF", "AU", "CAF", "W64", "VOC", "RF64"]:
        assert "must be a wav, flac, ogg or mp3" in reason(file_of(tone(), kind=kind)), kind


def test_impossible_rates_are_refused() -> None:
    for rate_hz, words in [(1, "1 Hz"), (10_000_000, "10000000 Hz"), (2**32 - 1, "")]:
        assert words in reason(raw_wav(bytes(1000), rate_hz=rate_hz)), (rate_hz, words)


def test_a_thousand_channels_are_refused() -> None:
    assert "1000 channels" in reason(raw_wav(bytes(200_000), channels=1000))


def test_samples_that_are_not_finite_are_refused() -> None:
    for value in [np.nan, np.inf, -np.inf]:
        samples = tone()
        samples[12_345] = value
        assert "not finite numbers" in reason(raw_wav(samples.tobytes(), bits=32, kind=3)), value


def test_samples_beyond_full_scale_are_clipped() -> None:
    loud = np.full((100, 2), 3e38, np.float32)  # whose sum is infinite
    samples, _rate_hz = decode_audio(
        raw_wav(loud.tobytes(), bits=32, kind=3, channels=2), max_bytes=1_000_000, max_s=5.0
    )
    assert set(samples) == {1.0}


def test_a_file_without_a_sample_is_refused() -> None:
    assert "no samples" in reason(file_of(np.zeros(0, np.float32)))


def open_length(flac: bytes) -> bytes:
    """A flac as it is streamed: its length is in the low 36 bits before its checksum, and 0 leaves it open."""
    return flac[:21] + bytes([flac[21] & 0xF0]) + bytes(4) + flac[26:]


def test_a_streamed_flac_is_read_to_its_end() -> None:
    flac = file_of(tone(3.21), kind="FLAC")
    samples, _rate_hz = decode_audio(open_length(flac), max_bytes=1_000_000, max_s=5.0)
    np.testing.assert_allclose(samples, tone(3.21), atol=1e-4)


def test_hours_in_a_few_bytes_are_refused_before_memory_is_allocated() -> None:
    silence = file_of(np.zeros(24_000 * 60, np.float32), kind="FLAC")
    honest = reason(silence)
    lying = open_length(silence)
    tracemalloc.start()
    try:
        refusal = reason(lying)
        _now, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(silence) < 20_000
    assert "longer than 5 s" in honest
    assert "longer than 5 s" in refusal
    assert peak_bytes < 4_000_000


def test_a_header_that_states_ten_hours_does_not_allocate_their_memory() -> None:
    data = bytearray(FILES["wav"])
    at = data.index(b"data") + 4
    data[at : at + 4] = struct.pack("<I", 24_000 * 2 * 36_000)
    tracemalloc.start()
    try:
        samples, _rate_hz = decode_audio(bytes(data), max_bytes=1_000_000, max_s=5.0)
        _now, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(samples) == 24_000  # what is there
    assert peak_bytes < 4_000_000


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(sorted(FILES)),
    st.lists(st.tuples(st.integers(0, 2**16), st.binary(max_size=8)), max_size=6),
    st.integers(0, 2**16),
    st.integers(0, 2**16),
)
def test_an_altered_file_is_decoded_or_refused(
    kind: str, edits: list[tuple[int, bytes]], cut: int, length: int
) -> None:
    data = bytearray(FILES[kind])
    for where, what in edits:
        at = where % (len(data) if where % 3 else 64)  # most faults are in headers
        data[at : at + len(what)] = what
    if cut % 4 == 0:
        del data[cut % len(data) : cut % len(data) + length]
    try:
        samples, rate_hz = decode_audio(bytes(data), max_bytes=1_000_000, max_s=5.0)
    except InvalidConfig:
        return
    assert 0 < len(samples) <= 5.0 * rate_hz
    assert np.isfinite(samples).all()
    assert np.abs(samples).max() <= 1.0


# -- Values of `ref_audio` ---------------------------------------------------------------------------------------------


@given(st.binary(min_size=1, max_size=200), st.sampled_from(["", "data:;base64,", "DATA:audio/wav;Base64,"]))
def test_base64_is_decoded(data: bytes, head: str) -> None:
    encoded = base64.encodebytes(data).decode()  # with line breaks
    assert parse_ref_audio(head + encoded) == data


@given(st.text(max_size=100))
def test_any_text_is_bytes_a_url_or_refused(text: str) -> None:
    try:
        found = parse_ref_audio(text)
    except InvalidConfig:
        return
    assert found


def test_a_url_is_returned_as_such() -> None:
    for url in ("http://example.org/a.wav", "HTTPS://example.org/b"):
        assert parse_ref_audio(url) == AudioUrl(url)


def test_other_values_of_ref_audio_are_refused() -> None:
    for value in [
        "",
        "data:",
        "data:audio/wav,abc",
        "data:;base64,",
        "file:///etc/passwd",
        "ftp://x/y",
        "=====",
        "AAA",
        "é",
    ]:
        with pytest.raises(InvalidConfig):
            parse_ref_audio(value)


def test_base64_of_too_many_bytes_is_refused_before_it_is_decoded() -> None:
    assert parse_ref_audio(base64.b64encode(bytes(100)).decode(), max_bytes=100) == bytes(100)
    with pytest.raises(InvalidConfig, match="at most 100 bytes"):
        parse_ref_audio("A" * 400, max_bytes=100)


def test_a_damaged_recording_prints_nothing_and_its_error_names_no_address(capfd: pytest.CaptureFixture[str]) -> None:
    damaged = bytearray(FILES["mp3"])
    damaged[600::7] = bytes(len(damaged[600::7]))
    heads = (b"ID3", b"\xff\xfb", b"OggS", b"fLaC", b"RIFF\0\0\0\0WAVEfmt ")
    for data in (bytes(damaged), *(head + bytes(range(256)) for head in heads)):
        with contextlib.suppress(InvalidConfig):
            decode_audio(data, **LIMITS)  # type: ignore[arg-type]
    assert capfd.readouterr().err == ""
    for head in heads:
        message = reason(head + bytes(range(256)))
        assert "0x" not in message, message
