"""The test model keeps its word: exact counts, the same sound for the same text, no clicks."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import StageInput
from tests.fakes import request


@given(st.text(max_size=80), st.sampled_from([0.25, 1.0, 4.0]))
def test_samples_are_frames_times_samples_per_frame(text: str, speed: float) -> None:
    each = dataclasses.replace(request(0, text), speed=speed)
    samples = tone.render(each)
    assert samples.shape == (len(tone.codes(each)) * tone.SAMPLES_PER_FRAME,)
    assert samples.dtype == np.float32
    assert np.abs(samples).max() <= 1.0


def test_sound_depends_on_text_and_voice_alone() -> None:
    each = request(0, "The same words.")
    assert np.array_equal(tone.render(each), tone.render(dataclasses.replace(each, request_id="x", stream_id="y")))
    assert not np.array_equal(tone.render(each), tone.render(dataclasses.replace(each, voice="tone_high")))


@given(st.text(alphabet="ab ,\n\u2003😀", max_size=80), st.sampled_from([0.25, 1.0, 4.0]))
def test_words_take_their_share_of_the_sound(text: str, speed: float) -> None:
    each = dataclasses.replace(request(0, text), speed=speed)
    words = tone.words(each)
    duration_s = len(tone.render(each)) / tone.SAMPLE_RATE_HZ
    assert [text[word.start : word.end] for word in words] == text.split()
    for word in words:
        assert word.start_s * len(text) == pytest.approx(duration_s * word.start)
        assert word.end_s * len(text) == pytest.approx(duration_s * word.end)
        assert 0 <= word.start_s < word.end_s <= duration_s


def test_all_words_come_with_the_first_frame() -> None:
    row = StageInput(request(0, "Two words."))
    talker = tone.build().stages[0]
    told = [talker.run([row])[0].words for _ in range(3)]
    assert told == [tone.words(row.request), (), ()]
    assert [(word.start, word.end) for word in told[0]] == [(0, 3), (4, 10)]
    assert told[0][1].end_s == 8 * 0.08


def test_frames_join_without_a_click() -> None:
    samples = tone.render(request(0, "A sentence that is long enough to have many frames in it."))
    steps = np.abs(np.diff(samples))
    joints = steps[tone.SAMPLES_PER_FRAME - 1 :: tone.SAMPLES_PER_FRAME]
    assert joints.max() <= steps.max()
    assert joints.max() < 0.2


def test_costs_are_waited_as_set() -> None:
    waited: list[float] = []
    costs = tone.ToneCosts(a0_s=1.0, b0_s=0.1, prefill_s=10.0)
    talker = tone.build(costs=costs, wait_s=waited.append).stages[0]
    rows = [StageInput(request(i)) for i in range(3)]
    talker.run(rows)
    talker.run(rows)
    assert waited == pytest.approx([31.3, 1.3])
