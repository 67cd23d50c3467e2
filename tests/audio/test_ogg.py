"""Ogg Opus files: libsndfile reads every packet, and exactly the samples."""

import io
import struct

import numpy as np
import opuslib_next
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.audio.encoder import make_encoder
from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.audio.ogg import OggOpusStream, ogg_opus
from realtime_tts.audio.opus import BITRATES, OpusCodec
from tests.audio.speechlike import speechlike


def file_of(rate_hz: int, samples: int) -> tuple[bytes, list[bytes], int]:
    codec = OpusCodec(rate_hz)
    sound = np.resize(speechlike(rate_hz), samples)
    packets = [packet.data for packet in codec.push(sound) + codec.finish()]
    skip = codec.pre_skip_samples
    return ogg_opus(packets, sample_rate_hz=rate_hz, pre_skip_samples=skip, samples=samples), packets, skip


@given(rate_hz=st.sampled_from(sorted(BITRATES)), samples=st.integers(1, 130_000))
@settings(max_examples=10)
def test_libsndfile_reads_exactly_the_samples(rate_hz: int, samples: int) -> None:
    data, packets, skip = file_of(rate_hz, samples)
    output, read_rate_hz = soundfile.read(io.BytesIO(data), dtype="float32")
    assert (read_rate_hz, len(output)) == (rate_hz, samples)
    decoder = opuslib_next.Decoder(rate_hz, 1)
    raw = np.frombuffer(b"".join(decoder.decode(packet, rate_hz // 50) for packet in packets), "<i2") / 32_768
    assert np.abs(raw[skip : skip + samples] - output).max() < 1e-3  # ours is rounded to 16 bits


def test_packets_longer_than_a_segment_are_kept() -> None:
    decoder = opuslib_next.Decoder(48_000, 1)
    encoder = opuslib_next.Encoder(48_000, 1, opuslib_next.APPLICATION_AUDIO)
    encoder.bitrate = 200_000
    noise = np.random.default_rng(0).uniform(-0.3, 0.3, (60, 960)).astype(np.float32)
    packets = [encoder.encode_float(frame.tobytes(), 960) for frame in noise]
    assert min(map(len, packets)) > 255
    output, _ = soundfile.read(
        io.BytesIO(ogg_opus(packets, sample_rate_hz=48_000, pre_skip_samples=0, samples=60 * 960)), dtype="float32"
    )
    raw = np.frombuffer(b"".join(decoder.decode(packet, 960) for packet in packets), "<i2") / 32_768
    assert np.abs(raw - output).max() < 1e-3


def test_pages_are_numbered_and_the_first_and_last_are_marked() -> None:
    data, packets, skip = file_of(24_000, 60_000)
    pages = [struct.unpack_from("<BqII", page, 1) for page in data.split(b"OggS")[1:]]
    assert [flags for flags, *_ in pages] == [2] + [0] * (len(pages) - 2) + [4]
    assert [number for *_, number in pages] == list(range(len(pages)))
    assert len({serial for _, _, serial, _ in pages}) == 1
    assert [granule for _, granule, *_ in pages] == [0, 0, 48_000, 96_000, 2 * (skip + 60_000)]
    assert len(packets) > 100


def test_two_files_have_different_serial_numbers() -> None:
    serials = {struct.unpack_from("<I", file_of(24_000, samples)[0], 14)[0] for samples in (5_000, 6_000)}
    assert len(serials) == 2


def test_one_wrong_bit_is_found() -> None:
    data = bytearray(file_of(24_000, 10_000)[0])
    assert len(soundfile.read(io.BytesIO(bytes(data)))[0]) == 10_000
    data[-100] ^= 1
    with pytest.raises(soundfile.LibsndfileError):
        soundfile.read(io.BytesIO(bytes(data)))


@given(
    rate_hz=st.sampled_from(sorted(BITRATES)),
    samples=st.integers(0, 60_000),
    cuts=st.lists(st.integers(1, 20_000), max_size=12),
)
@settings(max_examples=12)
def test_a_streamed_file_has_exactly_the_samples_for_any_chunking(rate_hz: int, samples: int, cuts: list[int]) -> None:
    sound = np.resize(speechlike(rate_hz), samples)
    raw = make_encoder(AudioFormat(Encoding.OPUS, rate_hz), rate_hz, streaming=True)
    stream = OggOpusStream(raw, rate_hz, serial=7)
    packets, at = [], 0
    for cut in [*cuts, samples]:
        packets += stream.encode(sound[at : at + cut])
        at += cut
    packets += stream.flush()
    assert sum(packet.samples for packet in packets) == samples
    if not samples:
        assert packets == []
        return
    output, read_rate_hz = soundfile.read(io.BytesIO(b"".join(packet.data for packet in packets)), dtype="float32")
    assert (read_rate_hz, len(output)) == (rate_hz, samples)


def test_a_streamed_file_does_not_wait_for_its_end() -> None:
    raw = make_encoder(AudioFormat(Encoding.OPUS, 24_000), 24_000, streaming=True)
    stream = OggOpusStream(raw, 24_000, serial=7)
    first = stream.encode(speechlike(24_000)[:7200])  # 300 ms
    assert sum(packet.samples for packet in first) >= 4800 - raw.pre_skip_samples
    assert first[0].data[:4] == b"OggS"
