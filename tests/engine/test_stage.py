"""A model is stages that fit together."""

import dataclasses

import pytest

from realtime_tts.engine.models import tone


def test_a_model_needs_a_stage_that_makes_frames_and_one_that_makes_sound() -> None:
    model = tone.build()
    with pytest.raises(ValueError, match="needs a stage"):
        dataclasses.replace(model, stages=model.stages[:1])


def test_stages_have_names_of_their_own() -> None:
    model = tone.build()
    with pytest.raises(ValueError, match="must differ"):
        dataclasses.replace(model, stages=(model.stages[0], model.stages[0]))
