"""Opus packets: a decoder returns every sample at its time, for any chunking."""

import numpy as np
import opuslib_next
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.audio.opus import BITRATES, OpusCodec
from realtime_tts.audio.packet import Packet
from realtime_tts.audio.pcm import Float32
from tests.audio.speechlike import snr_db, speechlike

RATES = sorted(BITRATES)


def packets_of(samples: Float32, rate_hz: int, cuts: list[int]) -> tuple[list[Packet], int]:
    codec = OpusCodec(rate_hz)
    packets = [packet for chunk in np.split(samples, sorted(cuts)) for packet in codec.push(chunk)]
    return packets + codec.finish(), codec.pre_skip_samples


def decoded(packets: list[Packet], rate_hz: int) -> Float32:
    decoder = opuslib_next.Decoder(rate_hz, 1)
    pcm = b"".join(decoder.decode(packet.data, rate_hz // 50) for packet in packets)
    return np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32_768)


@given(rate_hz=st.sampled_from(RATES), length=st.integers(1, 4_000), data=st.data())
@settings(max_examples=40)
def test_any_chunking_gives_the_same_packets_with_every_sample(rate_hz: int, length: int, data: st.DataObject) -> None:
    samples = np.random.default_rng(length).uniform(-0.5, 0.5, length).astype(np.float32)
    cuts = data.draw(st.lists(st.integers(0, length), max_size=8))
    packets, pre_skip = packets_of(samples, rate_hz, cuts)
    assert packets == packets_of(samples, rate_hz, [])[0]
    assert sum(packet.samples for packet in packets) == length
    assert all(packet.samples > 0 for packet in packets)
    assert 0 <= len(decoded(packets, rate_hz)) - pre_skip - length < rate_hz // 50


@given(rate_hz=st.sampled_from(RATES), chunks=st.lists(st.integers(1, 3_000), max_size=6))
@settings(max_examples=40)
def test_a_packet_s_samples_are_what_a_decoder_has_by_then(rate_hz: int, chunks: list[int]) -> None:
    codec = OpusCodec(rate_hz)
    got = 0
    packets = 0
    for length in chunks:
        for packet in codec.push(np.zeros(length, np.float32)):
            packets += 1
            got += packet.samples
            assert got == packets * (rate_hz // 50) - codec.pre_skip_samples


def test_speech_is_at_its_time_after_the_pre_skip() -> None:
    for rate_hz in RATES:
        samples = speechlike(rate_hz)
        packets, pre_skip = packets_of(samples, rate_hz, list(range(700, len(samples), 700)))
        output = decoded(packets, rate_hz)
        at_once = snr_db(samples, output[pre_skip : pre_skip + len(samples)])
        assert at_once > 12, rate_hz
        for shift in (-3, 3):  # no other shift fits better
            assert snr_db(samples[8:-8], output[pre_skip + 8 + shift :][: len(samples) - 16]) < at_once, rate_hz
        kbit_per_s = sum(len(packet.data) for packet in packets) * 8 / 1_000 / (len(samples) / rate_hz)
        assert kbit_per_s < 1.2 * BITRATES[rate_hz] / 1_000, rate_hz


def test_one_broken_sample_does_not_change_later_packets() -> None:
    samples = speechlike(24_000)
    broken = samples.copy()
    broken[10_000] = np.nan
    broken[10_001] = np.inf
    silent = samples.copy()
    silent[10_000] = 0.0
    silent[10_001] = 1.0
    assert packets_of(broken, 24_000, []) == packets_of(silent, 24_000, [])


def test_nothing_may_follow_the_end() -> None:
    codec = OpusCodec(24_000)
    codec.push(np.zeros(480, np.float32))
    codec.finish()
    with pytest.raises(AssertionError, match="finish"):
        codec.push(np.zeros(480, np.float32))
