"""FLAC and MP3 by libsndfile: nothing is lost, nothing is released twice, and what is counted can be heard."""

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


def encoded(codec: FileCodec | StreamCodec, samples: Float32, cuts: list[int]) -> list[Packet]:
    return [packet for chunk in np.split(samples, sorted(cuts)) if len(chunk) for packet in codec.push(chunk)] + (
        codec.finish()
    )


def decoded(data: bytes) -> Float32:
    return np.asarray(soundfile.read(io.BytesIO(data), dtype="float32")[0], np.float32)


def with_length(stream: bytes, samples: int) -> bytes:
    """python-soundfile cannot read to an end that the header does not tell; what comes in one piece tells it."""
    assert stream[STREAMINFO_TOTAL] in (bytes(4), samples.to_bytes(4, "big"))
    return stream[: STREAMINFO_TOTAL.start] + samples.to_bytes(4, "big") + stream[STREAMINFO_TOTAL.stop :]


@given(rate_hz=st.integers(8_000, 48_000), length=st.integers(1, 6_000), data=st.data())
@settings(deadline=None, max_examples=40)
def test_flac_holds_the_very_samples_of_our_pcm_for_any_chunking(
    rate_hz: int, length: int, data: st.DataObject
) -> None:
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


@pytest.mark.parametrize("step", [500, FLAC_BLOCK_SAMPLES])
def test_what_a_flac_packet_counts_can_be_decoded_by_then(step: int) -> None:
    samples = speechlike(24_000)
    codec = StreamCodec(Encoding.FLAC, 24_000)
    stream, counted = b"", 0
    for start in range(0, len(samples), step):
        for packet in codec.push(samples[start : start + step]):
            stream, counted = stream + packet.data, counted + packet.samples
            assert len(decoded(with_length(stream, counted))) == counted
        assert min(start + step, len(samples)) - counted <= FLAC_BLOCK_SAMPLES


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 24_000, 44_100, 48_000])
def test_an_mp3_file_has_exactly_the_samples_and_a_stream_has_them_late(rate_hz: int) -> None:
    samples = speechlike(rate_hz)
    cuts = list(range(777, len(samples), 777))
    [whole] = encoded(FileCodec(Encoding.MP3, rate_hz), samples, cuts)
    assert whole.samples == len(samples)
    assert snr_db(samples, decoded(whole.data)) > 15
    streamed = encoded(StreamCodec(Encoding.MP3, rate_hz), samples, cuts)
    assert sum(packet.samples for packet in streamed) == len(samples)
    assert len(streamed) > len(samples) // 3_000
    heard = decoded(b"".join(packet.data for packet in streamed))
    assert snr_db(samples, heard[MP3_DELAY_SAMPLES:][: len(samples)]) > 15
    assert 0 <= len(heard) - MP3_DELAY_SAMPLES - len(samples) < 2 * 1_152


@given(length=st.integers(1, 12_000), cuts=st.lists(st.integers(0, 12_000), max_size=8), streaming=st.booleans())
@example(length=8_289, cuts=[8_288], streaming=True)  # one sample more, which makes no byte more
@settings(deadline=None, max_examples=20)
def test_any_chunking_gives_the_same_mp3(length: int, cuts: list[int], streaming: bool) -> None:
    samples = np.resize(speechlike(24_000), length)
    make = StreamCodec if streaming else FileCodec
    packets, once = (encoded(make(Encoding.MP3, 24_000), samples, places) for places in (cuts, []))
    assert b"".join(packet.data for packet in packets) == b"".join(packet.data for packet in once)
    assert sum(packet.samples for packet in packets) == length
    assert all(packet.samples > 0 and packet.data for packet in packets)


@pytest.mark.parametrize("rate_hz", [8_000, 24_000, 44_100])
def test_what_an_mp3_packet_counts_can_be_decoded_by_then(rate_hz: int) -> None:
    samples = speechlike(rate_hz)
    codec = StreamCodec(Encoding.MP3, rate_hz)
    stream, counted = b"", 0
    for start in range(0, len(samples), 500):
        for packet in codec.push(samples[start : start + 500]):
            stream, counted = stream + packet.data, counted + packet.samples
            if packet.samples == counted:  # one frame alone does not tell libsndfile that this is MP3
                continue
            assert len(decoded(stream)) >= counted + MP3_DELAY_SAMPLES
    assert len(samples) - counted < 6 * 1_152


@pytest.mark.parametrize("encoding", [Encoding.FLAC, Encoding.MP3])
@pytest.mark.parametrize("make", [FileCodec, StreamCodec])
def test_one_broken_sample_is_silence_and_a_loud_one_is_clipped(
    encoding: Encoding, make: type[FileCodec] | type[StreamCodec]
) -> None:
    samples = speechlike(24_000)
    broken, clean = samples.copy(), samples.copy()
    broken[[5_000, 5_001, 5_002]] = np.nan, np.inf, -1e30
    clean[[5_000, 5_001, 5_002]] = 0.0, 1.0, -1.0
    assert encoded(make(encoding, 24_000), broken, []) == encoded(make(encoding, 24_000), clean, [])


def test_every_rate_that_the_format_takes_can_be_written() -> None:
    taken = 0
    for rate_hz in (*range(8_000, 48_001, 1_000), 11_025, 22_050, 44_100):
        try:
            AudioFormat(Encoding.MP3, rate_hz)
        except UnsupportedFormat:
            continue
        taken += 1
        assert len(decoded(encoded(FileCodec(Encoding.MP3, rate_hz), speechlike(rate_hz, 0.2), [])[0].data)) > 0
    assert taken == 9


@pytest.mark.parametrize("encoding", [Encoding.FLAC, Encoding.MP3])
@pytest.mark.parametrize("codec_type", [FileCodec, StreamCodec])
def test_a_codec_that_is_dropped_unfinished_goes_without_a_word(
    codec_type: type[FileCodec] | type[StreamCodec], encoding: Encoding, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(20):
        codec = codec_type(encoding, 24_000)
        codec.push(np.zeros(5000, np.float32))
        cycle = [codec]
        cycle.append(cycle)  # type: ignore[arg-type]  # so that the collector takes it, in an order of its own
        del codec, cycle
        gc.collect()
    assert capfd.readouterr().err == ""
