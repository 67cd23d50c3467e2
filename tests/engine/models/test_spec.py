"""A declaration completes the options of its model, and rejects unknown ones."""

import pytest

from realtime_tts.engine import models
from realtime_tts.engine.models.spec import ModelSpec
from realtime_tts.engine.stage import Model
from realtime_tts.errors import ModelNotUsable


def build(*, speed: float = 1.0, size: str = "small") -> Model:
    raise AssertionError(f"not built: {speed}, {size}")


SPEC = ModelSpec(name="example", build=build, info=models.find("tone").info)


def test_options_are_completed_by_the_defaults_of_build() -> None:
    assert SPEC.complete_options({}) == {"speed": 1.0, "size": "small"}
    assert SPEC.complete_options({"size": "large"}) == {"speed": 1.0, "size": "large"}


def test_an_unknown_option_is_rejected_with_those_that_exist() -> None:
    with pytest.raises(ModelNotUsable, match="model example has no option fast, loud; it has speed, size"):
        SPEC.complete_options({"fast": 1, "size": "large", "loud": 2})


def test_a_model_reports_progress_if_its_build_takes_the_option() -> None:
    assert not SPEC.reports_progress
    reporting = {name for name, spec in models.specs().items() if spec.reports_progress}
    assert reporting == {"kokoro", "qwen3_omni", "qwen3_tts"}
