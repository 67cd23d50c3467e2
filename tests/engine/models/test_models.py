"""Models are found by name, and one that is not there is refused in plain words."""

from pathlib import Path

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


def test_a_model_is_named_or_it_is_the_directory_of_its_weights(tmp_path: Path) -> None:
    assert models.resolve("kokoro") == ("kokoro", None)
    assert models.resolve(str(tmp_path)) == ("qwen3_tts", str(tmp_path))
    assert models.resolve("Qwen/Qwen3-TTS-12Hz-0.6B-Base") == ("qwen3_tts", "Qwen/Qwen3-TTS-12Hz-0.6B-Base")
    assert models.resolve("kokorro") == ("kokorro", None), "a slip, of which `build` says what there is"
    with pytest.raises(ModelNotUsable, match=r"config\.json"):
        models.info("qwen3_tts", model_dir=tmp_path)
