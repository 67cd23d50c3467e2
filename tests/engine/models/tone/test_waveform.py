"""Audio of the test model: exact counts, the same audio for the same text, no clicks."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.tone.waveform import (
    SAMPLE_RATE_HZ,
    SAMPLES_PER_FRAME,
    FrameMaker,
    answer,
    codes,
    decode,
    frame_count,
    loudness_of,
    render,
    words,
)
from tests.fakes import request

speeds = st.sampled_from([0.25, 1.0, 4.0])


@given(st.text(max_size=80), speeds)
@settings(max_examples=50)
def test_samples_are_frames_times_samples_per_frame(text: str, speed: float) -> None:
    each = dataclasses.replace(request(0, text), speed=speed)
    samples = render(each)
    assert len(codes(each)) == frame_count(text, speed)
    assert samples.shape == (len(codes(each)) * SAMPLES_PER_FRAME,)
    assert samples.dtype == np.float32
    assert np.abs(samples).max() <= 1.0


def test_audio_depends_on_text_and_voice_alone() -> None:
    each = request(0, "The same words.")
    assert np.array_equal(render(each), render(dataclasses.replace(each, request_id="x", stream_id="y")))
    assert not np.array_equal(render(each), render(dataclasses.replace(each, voice="tone_high")))


@given(st.text(min_size=1, max_size=60), st.lists(st.integers(1, 9), max_size=20), speeds)
@settings(max_examples=50)
def test_a_text_that_grows_has_the_frames_of_the_whole(text: str, growth: list[int], speed: float) -> None:
    each = dataclasses.replace(request(0, text), speed=speed)
    maker = FrameMaker(each.voice, speed)
    frames = []
    known = 0
    for more in [*growth, len(text)]:
        known = min(len(text), known + more)
        while not maker.needs_text(text[:known]):
            frames.append(maker.next(text[:known]))
    while maker.done < frame_count(text, speed):
        frames.append(maker.next(text))
    assert np.array_equal(np.concatenate(frames)[: maker.done], codes(each)[: maker.done])


@given(st.text(alphabet="ab ,\n\u2003😀", max_size=80), speeds)
@settings(max_examples=50)
def test_words_take_their_share_of_the_audio(text: str, speed: float) -> None:
    each = dataclasses.replace(request(0, text), speed=speed)
    duration_s = len(render(each)) / SAMPLE_RATE_HZ
    assert [text[word.start : word.end] for word in words(each)] == text.split()
    for word in words(each):
        assert word.start_s * len(text) == pytest.approx(duration_s * word.start)
        assert word.end_s * len(text) == pytest.approx(duration_s * word.end)
        assert 0 <= word.start_s < word.end_s <= duration_s


def test_frames_join_without_a_click() -> None:
    samples = render(request(0, "A sentence that is long enough to have many frames in it."))
    steps = np.abs(np.diff(samples))
    joints = steps[SAMPLES_PER_FRAME - 1 :: SAMPLES_PER_FRAME]
    assert joints.max() <= steps.max()
    assert joints.max() < 0.2


def test_chunks_that_begin_with_the_last_loudness_join_exactly() -> None:
    frames = codes(request())
    first, second = frames[:3], frames[3:]
    joined = np.concatenate([decode(first), decode(second, loudness_of(first))])
    assert np.array_equal(joined, decode(frames))


def test_an_answer_contains_the_question() -> None:
    assert answer("Why?") == "You said: Why?"
