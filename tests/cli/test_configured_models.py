"""Models of a configuration: names, options and refusals, without loading weights."""

from pathlib import Path
from typing import Any

import pytest

from realtime_tts.cli.configured_models import configured_models
from realtime_tts.config.load import InvalidSetting
from realtime_tts.config.schema import ModelSection
from realtime_tts.errors import ModelNotUsable


def no_report(_line: str) -> None: ...


def options(**section: Any) -> dict[str, dict[str, Any]]:
    """The options of each model, by its name."""
    return {model.name: model.options for model in configured_models(ModelSection(**section))}


def test_the_default_is_one_model_without_options() -> None:
    assert options() == {"kokoro": {}}


def test_an_option_goes_to_every_model_that_has_it() -> None:
    section = {"name": ("kokoro", "tone"), "threads": 3, "dir": Path("weights"), "options": {"max_batch": 2}}
    assert options(**section) == {"kokoro": {"threads": 3, "model_dir": Path("weights")}, "tone": {"max_batch": 2}}


def test_an_option_with_the_name_of_a_model_goes_to_that_model_only() -> None:
    section = {"name": ("kokoro", "tone"), "threads": 3, "options": {"kokoro.threads": 1, "tone.profile": "h20"}}
    assert options(**section) == {"kokoro": {"threads": 1}, "tone": {"profile": "h20"}}


def test_a_directory_is_a_model_with_its_own_weights_and_name(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.engine.models.qwen3_tts.make_checkpoint import RECIPES, make_checkpoint

    for name in ("qwen3-a", "qwen3-b", "other/qwen3-a"):
        make_checkpoint(tmp_path / name, RECIPES["custom_voice"])
    first, second, third = (str(tmp_path / name) for name in ("qwen3-a", "qwen3-b", "other/qwen3-a"))
    section = {"dir": tmp_path, "options": {"slots": 2, "qwen3-b.slots": 3}}
    assert options(name=(first, "kokoro", second), **section) == {
        "qwen3-a": {"slots": 2, "model_dir": first},
        "kokoro": {"model_dir": tmp_path},
        "qwen3-b": {"slots": 3, "model_dir": second},
    }
    (model,) = configured_models(ModelSection(name=("qwen3_tts",), dir=Path(first)))
    assert model.name == model.info().name == "qwen3-a"
    with pytest.raises(InvalidSetting, match="another model qwen3-a; rename its directory"):
        options(name=(first, third))
    with pytest.raises(InvalidSetting, match="there is no option model_dir"):
        options(name=(first,), dir=tmp_path)


def test_what_no_model_can_use_is_refused() -> None:
    for section, words in (
        ({"name": ("tone",), "threads": 2}, "there is no option threads; tone has profile, costs, max_batch"),
        ({"name": ("kokoro", "tone"), "options": {"fast": 1}}, "no option fast; kokoro has .*; tone has profile"),
        ({"name": ("tone",), "options": {"tone.fast": 1}}, "model.options: tone has no option fast; tone has profile"),
        ({"name": ("tone",), "options": {"kokoro.threads": 1}}, "there is no model kokoro; there are tone"),
        ({"name": ("tone", "tone")}, "model.name: tone would be another model tone"),
    ):
        with pytest.raises(InvalidSetting, match=words):
            options(**section)
    with pytest.raises(ModelNotUsable, match="there is no model 'nope'"):
        options(name=("tone", "nope"))


def test_progress_is_reported_by_the_models_that_can() -> None:
    kokoro, tone = configured_models(ModelSection(name=("kokoro", "tone"), options={"max_batch": 2}))
    assert kokoro.build_options(no_report) == {"progress": no_report}
    assert tone.build_options(no_report) == {"max_batch": 2}
    assert tone.load(no_report).info == tone.info()
