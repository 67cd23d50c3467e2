"""A model is stages that fit together."""

import dataclasses

import numpy as np
import pytest

from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import StageOutput


def test_a_model_needs_a_stage_that_makes_frames_and_one_that_makes_sound() -> None:
    model = tone.build()
    with pytest.raises(ValueError, match="needs a stage"):
        dataclasses.replace(model, stages=model.stages[:1])


def test_stages_have_names_of_their_own() -> None:
    model = tone.build()
    with pytest.raises(ValueError, match="must differ"):
        dataclasses.replace(model, stages=(model.stages[0], model.stages[0]))


def test_only_an_end_can_be_tried_again() -> None:
    with pytest.raises(ValueError, match="come to its end"):
        StageOutput(np.empty((0, 16)), can_retry=True)
