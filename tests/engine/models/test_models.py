"""Models are found by name, and one that is not there is refused in plain words."""

import pytest

from realtime_tts.engine import models
from realtime_tts.errors import ModelNotUsable


def test_every_model_in_the_folder_has_a_name_and_a_build() -> None:
    assert {"kokoro", "tone"} <= set(models.names())
    assert models.build("tone").info.name == "tone"


@pytest.mark.parametrize("name", ["nope", "../tone", "tone.py", ""])
def test_an_unknown_model_is_refused_with_those_that_exist(name: str) -> None:
    with pytest.raises(ModelNotUsable, match=r"there are .*tone"):
        models.build(name)
