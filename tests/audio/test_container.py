"""FLAC and MP3 by libsndfile: nothing is lost, nothing is sent twice, and counted samples can be decoded."""

import gc
import io

import numpy as np
import pytest
import soundfile
from hypothesis import example, given, settings
from hypothesis import strategies as st

from realtime_tts.audio.container import FLAC_BLOCK_SAMPLES, MP3_DELAY_SAMPLES, FileCodec, StreamCodec
from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.audio.packet import Packet
from realtime_tts.audio.pcm import Float32, pcm_int16
from realtime_tts.errors import UnsupportedFormat
from tests.audio.speechlike import snr_db, speechlike

STREAMINFO_TOTAL = slice(22, 26)
"""The lower 32 bits of FLAC's number of samples (RFC 9639, 8.2); 0 is unknown."""
STREAMINFO_END = 42

KINDS: tuple[type[FileCodec] | type[StreamCodec], ...] = (FileCodec, StreamCodec)


def encoded(codec: FileCodec | StreamCodec, samples: Float32, cuts: list[int]) -> list[Packet]:
    return [packet for chunk in np.split(samples, sorted(cuts)) if len(chunk) for packet in codec.push(chunk)] + (
        codec.finish()
    )


def decoded(data: bytes) -> Float32:
    return np.asarray(soundfile.read(io.BytesIO(data), dtype="float32")[0], np.float32)


def with_length(stream: bytes, samples: int) -> bytes:
    """A stream whose header states its length, without which python-soundfile does not find its end."""
    assert stream[STREAMINFO_TOTAL] in (bytes(4), samples.to_bytes(4, "big"))
    return stream[: STREAMINFO_TOTAL.start] + samples.to_bytes(4, "big") + stream[STREAMINFO_TOTAL.stop :]


@given(rate_hz=st.integers(8_000, 48_000), length=st.integers(1, 6_000), data=st.data())
@settings(max_examples=40)
def test_flac_has_the_same_samples_as_our_pcm_for_any_chunking(rate_hz: int, length: int, data: st.DataObject) -> None:
    samples = np.random.default_rng(length).uniform(-1.2, 1.2, length).astype(np.float32)
    cuts = data.draw(st.lists(st.integers(0, length), max_size=8))
    whole = encoded(FileCodec(Encoding.FLAC, rate_hz), samples, cuts)
    streamed = encoded(StreamCodec(Encoding.FLAC, rate_hz), samples, cuts)
    stream = b"".join(packet.data for packet in streamed)
    assert len(whole) == 1
    assert whole[0].samples == sum(packet.samples for packet in streamed) == length
    assert stream[STREAMINFO_END:] == whole[0].data[STREAMINFO_END:]
    for file in (whole[0].data, with_length(stream, length)):
        heard, read_rate_hz = soundfile.read(io.BytesIO(file), dtype="int16")
        assert read_rate_hz == rate_hz
        assert np.array_equal(heard, pcm_int16(samples))


def test_what_a_flac_packet_counts_can_be_decoded_by_then() -> None:
    for step in [500, FLAC_BLOCK_SAMPLES]:
        samples = speechlike(24_000)
        codec = StreamCodec(Encoding.FLAC, 24_000)
        stream, counted = b"", 0
        for start in range(0, len(samples), step):
            for packet in codec.push(samples[start : start + step]):
                stream, counted = stream + packet.data, counted + packet.samples
                assert len(decoded(with_length(stream, counted))) == counted, step
            assert min(start + step, len(samples)) - counted <= FLAC_BLOCK_SAMPLES, step


def test_an_mp3_file_has_exactly_the_samples_and_a_stream_has_them_late() -> None:
    for rate_hz in [8_000, 11_025, 24_000, 44_100, 48_000]:
        samples = speechlike(rate_hz)
        cuts = list(range(777, len(samples), 777))
        [whole] = encoded(FileCodec(Encoding.MP3, rate_hz), samples, cuts)
        assert whole.samples == len(samples), rate_hz
        assert snr_db(samples, decoded(whole.data)) > 15, rate_hz
        streamed = encoded(StreamCodec(Encoding.MP3, rate_hz), samples, cuts)
        assert sum(packet.samples for packet in streamed) == len(samples), rate_hz
        assert len(streamed) > len(samples) // 3_000, rate_hz
        heard = decoded(b"".join(packet.data for packet in streamed))
        assert snr_db(samples, heard[MP3_DELAY_SAMPLES:][: len(samples)]) > 15, rate_hz
        assert 0 <= len(heard) - MP3_DELAY_SAMPLES - len(samples) < 2 * 1_152, rate_hz


@given(length=st.integers(1, 12_000), cuts=st.lists(st.integers(0, 12_000), max_size=8), streaming=st.booleans())
@example(length=8_289, cuts=[8_288], streaming=True)  # one sample more, which makes no byte more
@settings(max_examples=20)
def test_any_chunking_gives_the_same_mp3(length: int, cuts: list[int], streaming: bool) -> None:
    samples = np.resize(speechlike(24_000), length)
    make = StreamCodec if streaming else FileCodec
    packets, once = (encoded(make(Encoding.MP3, 24_000), samples, places) for places in (cuts, []))
    assert b"".join(packet.data for packet in packets) == b"".join(packet.data for packet in once)
    assert sum(packet.samples for packet in packets) == length
    assert all(packet.samples > 0 and packet.data for packet in packets)


def test_what_an_mp3_packet_counts_can_be_decoded_by_then() -> None:
    for rate_hz in [8_000, 24_000, 44_100]:
        samples = speechlike(rate_hz)
        codec = StreamCodec(Encoding.MP3, rate_hz)
        stream, counted = b"", 0
        for start in range(0, len(samples), 500):
            for packet in codec.push(samples[start : start + 500]):
                stream, counted = stream + packet.data, counted + packet.samples
                if packet.samples == counted:  # libsndfile does not recognise a single frame as MP3
                    continue
                assert len(decoded(stream)) >= counted + MP3_DELAY_SAMPLES, rate_hz
        assert len(samples) - counted < 6 * 1_152, rate_hz


def test_one_broken_sample_is_silence_and_a_loud_one_is_clipped() -> None:
    broken, clean = speechlike(24_000), speechlike(24_000)
    broken[[5_000, 5_001, 5_002]] = np.nan, np.inf, -1e30
    clean[[5_000, 5_001, 5_002]] = 0.0, 1.0, -1.0
    for encoding in (Encoding.FLAC, Encoding.MP3):
        for make in KINDS:
            found = encoded(make(encoding, 24_000), broken, [])
            assert found == encoded(make(encoding, 24_000), clean, []), (make, encoding)


def test_every_supported_rate_can_be_written() -> None:
    supported = 0
    for rate_hz in (*range(8_000, 48_001, 1_000), 11_025, 22_050, 44_100):
        try:
            AudioFormat(Encoding.MP3, rate_hz)
        except UnsupportedFormat:
            continue
        supported += 1
        assert len(decoded(encoded(FileCodec(Encoding.MP3, rate_hz), speechlike(rate_hz, 0.2), [])[0].data)) > 0
    assert supported == 9


def test_a_codec_that_is_dropped_unfinished_reports_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    for codec_type in KINDS * 5:
        for encoding in (Encoding.FLAC, Encoding.MP3):
            codec = codec_type(encoding, 24_000)
            codec.push(np.zeros(5000, np.float32))
            cycle = [codec]
            cycle.append(cycle)  # type: ignore[arg-type]  # so that the collector frees it, in an order of its own
            del codec, cycle
            gc.collect()
        assert capfd.readouterr().err == "", (codec_type, encoding)
