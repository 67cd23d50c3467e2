"""Floats to 16 bits and back: nothing wraps, nothing raises."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.audio.pcm import pcm_bytes, pcm_samples, playable


@settings(max_examples=50)
@given(st.lists(st.floats(width=32), max_size=50))
def test_any_float_becomes_a_sample_of_its_own_sign_without_wrapping(values: list[float]) -> None:
    samples = np.array(values, np.float32)
    back = pcm_samples(pcm_bytes(samples))
    clean = np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0)
    assert back.shape == samples.shape
    assert np.all(np.abs(back - np.clip(clean, -1, 1)) <= 0.5 / 32767 + 1e-6)


@settings(max_examples=50)
@given(st.binary().map(lambda data: data[: len(data) // 2 * 2]))
def test_sixteen_bits_are_the_same_after_a_round_trip(data: bytes) -> None:
    again = np.frombuffer(pcm_bytes(pcm_samples(data)), "<i2")
    assert np.array_equal(again, np.maximum(np.frombuffer(data, "<i2"), -32767))


def test_bytes_are_little_endian_and_silence_is_zero() -> None:
    assert pcm_bytes(np.array([0.0, 1.0, -1.0], np.float32)) == b"\x00\x00\xff\x7f\x01\x80"


def test_the_input_is_not_changed() -> None:
    samples = np.array([0.5, 2.0, np.nan], np.float32)
    kept = samples.copy()
    pcm_bytes(samples)
    playable(samples)
    assert np.array_equal(samples, kept, equal_nan=True)


@settings(max_examples=50)
@given(st.integers(0, 1919), st.sampled_from([np.nan, np.inf, -np.inf, 1.5, -1.5]), st.booleans())
def test_one_bad_sample_among_many_is_found_and_the_others_stay(at: int, bad: float, planes: bool) -> None:
    samples = np.linspace(-1, 1, 1920, dtype=np.float32)
    expected = samples.copy()
    samples[at], expected[at] = bad, np.clip(np.nan_to_num(bad), -1, 1)
    shape = (960, 2) if planes else (1920,)
    assert np.array_equal(playable(samples.reshape(shape)), expected.reshape(shape))
    assert np.array_equal(np.frombuffer(pcm_bytes(samples), "<i2"), np.rint(expected * np.float32(32767)))


def test_playable_samples_are_not_copied() -> None:
    for samples in (np.array([1.0, -1.0, 0.0], np.float32), np.zeros(0, np.float32)):
        assert playable(samples) is samples
    assert playable(loud := np.array([1.5], np.float32)) is not loud
