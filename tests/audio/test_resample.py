"""Resampling: exact length, the same for any chunking, and the same sound."""

import math

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from realtime_tts.audio.pcm import Float32
from realtime_tts.audio.resample import StreamingResampler

RATES = [8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000]


def resampled(samples: Float32, in_hz: int, out_hz: int, cuts: list[int]) -> Float32:
    resampler = StreamingResampler(in_hz, out_hz)
    pieces = [resampler.push(piece) for piece in np.split(samples, sorted(cuts))]
    return np.concatenate([*pieces, resampler.flush()])


@given(
    in_hz=st.sampled_from(RATES),
    out_hz=st.integers(8_000, 48_000),
    length=st.integers(0, 6_000),
    data=st.data(),
)
@settings(max_examples=40)
def test_any_chunking_gives_the_whole_s_samples_and_exactly_as_many(
    in_hz: int, out_hz: int, length: int, data: st.DataObject
) -> None:
    samples = np.random.default_rng(length).uniform(-1, 1, length).astype(np.float32)
    cuts = data.draw(st.lists(st.integers(0, length), max_size=8))
    whole, chunked = resampled(samples, in_hz, out_hz, []), resampled(samples, in_hz, out_hz, cuts)
    assert len(whole) == int(np.floor(length * out_hz / in_hz + 0.5))
    assert chunked.shape == whole.shape
    assert np.allclose(chunked, whole, atol=1e-6)


@given(
    rates=st.tuples(st.sampled_from(RATES), st.integers(8_000, 48_000)).filter(lambda r: r[0] // math.gcd(*r) % 2 == 0),
    odd=st.integers(0, 3).map(lambda k: 2 * k + 1),
)
@example(rates=(8_000, 47_999), odd=5)
@example(rates=(22_050, 21_777), odd=3)
@settings(max_examples=30)
def test_half_a_sample_is_rounded_up(rates: tuple[int, int], odd: int) -> None:
    in_hz, out_hz = rates
    length = in_hz // math.gcd(in_hz, out_hz) // 2 * odd
    assert (2 * length * out_hz) % (2 * in_hz) == in_hz
    assert len(resampled(np.zeros(length, np.float32), in_hz, out_hz, [])) == (length * out_hz * 2 + in_hz) // (
        2 * in_hz
    )


def test_single_samples_give_the_same_result() -> None:
    samples = np.sin(np.arange(2_000) / 7).astype(np.float32)
    one_by_one = resampled(samples, 24_000, 16_000, list(range(2_000)))
    assert np.allclose(one_by_one, resampled(samples, 24_000, 16_000, []), atol=1e-6)


def test_a_tone_stays_the_same_tone() -> None:
    for out_hz in RATES:
        samples = np.sin(2 * np.pi * 440 * np.arange(24_000) / 24_000).astype(np.float32)
        got = resampled(samples, 24_000, out_hz, [100, 5_000, 5_001, 17_000])
        ideal = np.sin(2 * np.pi * 440 * np.arange(out_hz) / out_hz)
        inside = slice(out_hz // 20, -out_hz // 20)  # the ends see the silence around the sound
        noise = float(np.std(got[inside] - ideal[inside]))
        assert noise < float(np.std(ideal)) / 1000, out_hz  # 60 dB


def test_the_same_rate_returns_the_same_samples() -> None:
    samples = np.ones(10, np.float32)
    resampler = StreamingResampler(24_000, 24_000)
    assert resampler.push(samples) is samples
    assert len(resampler.flush()) == 0
