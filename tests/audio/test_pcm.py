"""Floats to 16 bits and back: nothing wraps, nothing raises."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.audio.pcm import pcm_bytes, pcm_samples, playable


@given(st.lists(st.floats(width=32), max_size=50))
def test_any_float_becomes_a_sample_of_its_own_sign_without_wrapping(values: list[float]) -> None:
    samples = np.array(values, np.float32)
    back = pcm_samples(pcm_bytes(samples))
    clean = np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0)
    assert back.shape == samples.shape
    assert np.all(np.abs(back - np.clip(clean, -1, 1)) <= 0.5 / 32767 + 1e-6)


@given(st.binary().map(lambda data: data[: len(data) // 2 * 2]))
def test_sixteen_bits_survive_the_way_there_and_back(data: bytes) -> None:
    again = np.frombuffer(pcm_bytes(pcm_samples(data)), "<i2")
    assert np.array_equal(again, np.maximum(np.frombuffer(data, "<i2"), -32767))


def test_bytes_are_little_endian_and_silence_is_zero() -> None:
    assert pcm_bytes(np.array([0.0, 1.0, -1.0], np.float32)) == b"\x00\x00\xff\x7f\x01\x80"


def test_the_samples_that_are_given_stay_as_they_were() -> None:
    samples = np.array([0.5, 2.0, np.nan], np.float32)
    kept = samples.copy()
    pcm_bytes(samples)
    playable(samples)
    assert np.array_equal(samples, kept, equal_nan=True)
