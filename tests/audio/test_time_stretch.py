"""Time stretching: exact length, the same for any chunking, the same pitch, and every sound at its time."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from realtime_tts.audio.pcm import Float32
from realtime_tts.audio.time_stretch import BLOCK_S, SEARCH_S, StreamingStretcher
from tests.audio.speechlike import speechlike

TEMPOS = [0.25, 0.5, 0.8, 0.99, 1.01, 1.25, 1.5, 2.0, 3.0, 4.0]
RATE_HZ = 24_000


def stretched(samples: Float32, tempo: float, cuts: list[int] | None = None, rate_hz: int = RATE_HZ) -> Float32:
    stretcher = StreamingStretcher(rate_hz, tempo)
    pieces = [stretcher.push(piece) for piece in np.split(samples, sorted(cuts or []))]
    return np.concatenate([*pieces, stretcher.flush()])


@given(
    rate_hz=st.sampled_from([8_000, 16_000, 22_050, 24_000, 48_000]),
    tempo=st.floats(0.25, 4.0),
    length=st.integers(0, 9_000),
    data=st.data(),
)
@settings(max_examples=40)
def test_any_chunking_gives_the_whole_s_samples_and_exactly_as_many(
    rate_hz: int, tempo: float, length: int, data: st.DataObject
) -> None:
    samples = np.resize(speechlike(rate_hz, 0.5), length)
    cuts = data.draw(st.lists(st.integers(0, length), max_size=8))
    whole = stretched(samples, tempo, rate_hz=rate_hz)
    assert len(whole) == math.floor(length / Fraction(tempo) + Fraction(1, 2))
    assert np.array_equal(stretched(samples, tempo, cuts, rate_hz), whole)


def test_single_samples_give_the_same_result() -> None:
    samples = speechlike(8_000, 0.3)
    assert np.array_equal(
        stretched(samples, 1.3, list(range(len(samples))), 8_000), stretched(samples, 1.3, rate_hz=8_000)
    )


def test_a_tone_keeps_its_pitch_and_loudness_without_a_discontinuity() -> None:
    for pitch_hz in [90.0, 220.0, 1_000.0]:
        for tempo in TEMPOS:
            samples = (0.5 * np.sin(2 * np.pi * pitch_hz * np.arange(RATE_HZ) / RATE_HZ)).astype(np.float32)
            got = stretched(samples, tempo)[: -RATE_HZ // 20]  # the end is not at a zero crossing of the tone
            power = np.abs(np.fft.rfft(got * np.hanning(len(got)))) ** 2
            frequencies_hz = np.fft.rfftfreq(len(got), 1 / RATE_HZ)
            near = np.abs(frequencies_hz - pitch_hz) < 0.05 * pitch_hz + 20
            assert float(power[near].sum() / power.sum()) > 0.98, (tempo, pitch_hz)
            assert float(np.std(got)) == pytest.approx(float(np.std(samples)), rel=0.03), (tempo, pitch_hz)
            assert float(np.abs(np.diff(got)).max()) < 1.1 * float(np.abs(np.diff(samples)).max()), (tempo, pitch_hz)


def test_every_burst_is_at_the_stretched_time() -> None:
    for tempo in TEMPOS:
        bursts_s = np.array([0.3, 1.0, 1.7])
        t = np.arange(2 * RATE_HZ) / RATE_HZ
        envelope = sum(np.abs(t - at_s) < 0.1 for at_s in bursts_s)
        got = stretched((0.5 * envelope * np.sin(2 * np.pi * 150 * t)).astype(np.float32), tempo)
        off_s = SEARCH_S / tempo + BLOCK_S
        for at_s in bursts_s / tempo:
            around = slice(round((at_s - 0.3 / tempo) * RATE_HZ), round((at_s + 0.3 / tempo) * RATE_HZ))
            loud = np.flatnonzero(np.abs(got[around]) > 0.1) + around.start
            assert abs((loud[0] + loud[-1]) / 2 / RATE_HZ - at_s) < off_s, tempo
            assert (loud[-1] - loud[0]) / RATE_HZ == pytest.approx(0.2 / tempo, abs=2 * off_s), tempo


def test_a_loud_start_is_neither_early_nor_late() -> None:
    for onset_s in [0.5, 0.505, 0.51]:
        for before in [0.0, 0.02]:
            for tempo in [0.8, 0.9, 1.1, 1.25]:
                t = np.arange(RATE_HZ) / RATE_HZ
                noise = np.random.default_rng(0).uniform(-0.9, 0.9, RATE_HZ)
                samples = np.where(t < onset_s, before * np.sin(2 * np.pi * 200 * t), noise).astype(np.float32)
                onset = np.flatnonzero(np.abs(stretched(samples, tempo)) > 0.1)[0] / RATE_HZ
                assert onset == pytest.approx(onset_s / tempo, abs=0.007), (tempo, before, onset_s)


def test_the_stretcher_delays_at_most_a_few_blocks() -> None:
    for tempo in TEMPOS:
        stretcher = StreamingStretcher(RATE_HZ, tempo)
        samples = speechlike(RATE_HZ, 2.0)
        got = 0
        for start in range(0, len(samples), 480):
            got += len(stretcher.push(samples[start : start + 480]))
            given_s = (start + 480) / RATE_HZ
            assert got / RATE_HZ * tempo <= given_s + 0.015 * tempo, tempo
            assert got / RATE_HZ * tempo >= given_s - 0.05 - 0.015 * tempo, tempo


def test_one_broken_sample_becomes_silence_or_full_scale() -> None:
    for broken in [math.nan, math.inf, -1e30]:
        samples = speechlike(RATE_HZ)
        clean = samples.copy()
        samples[9_000], clean[9_000] = broken, 0.0 if math.isnan(broken) else math.copysign(1.0, broken)
        assert np.array_equal(stretched(samples, 1.5), stretched(clean, 1.5)), broken


def test_silence_stays_silence() -> None:
    for tempo in TEMPOS:
        assert not stretched(np.zeros(5_000, np.float32), tempo).any(), tempo


@given(seed=st.integers(0, 1_000), tempo=st.sampled_from(TEMPOS))
@example(seed=0, tempo=4.0)
@settings(max_examples=20)
def test_no_sample_becomes_louder(seed: int, tempo: float) -> None:
    samples = np.random.default_rng(seed).uniform(-1, 1, 4_000).astype(np.float32)
    assert np.abs(stretched(samples, tempo)).max() <= 1.0


def test_other_tempos_are_refused() -> None:
    for tempo in [0.0, -1.0, 0.2499, 4.001, math.nan, math.inf]:
        with pytest.raises(ValueError, match="tempo"):
            StreamingStretcher(RATE_HZ, tempo)
