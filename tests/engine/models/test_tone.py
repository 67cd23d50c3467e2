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
