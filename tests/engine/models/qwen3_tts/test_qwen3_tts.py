"""The package imports nothing heavy before it is built, and names a missing requirement."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from realtime_tts.engine import models
from realtime_tts.errors import ModelNotUsable

ROOT = Path(__file__).parents[4]
HEAVY = {"torch", "safetensors", "tokenizers", "transformers"}


def test_importing_it_imports_nothing_heavy() -> None:
    code = (
        "import sys, realtime_tts.engine.models.qwen3_tts.config, realtime_tts.engine.models.qwen3_tts\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not HEAVY & set(result.stdout.split())


def test_it_is_the_model_of_directories() -> None:
    assert models.find("qwen3_tts").loads_directories


def test_it_requires_a_directory() -> None:
    for call in (lambda: models.info("qwen3_tts"), lambda: models.build("qwen3_tts")):
        with pytest.raises(ModelNotUsable, match="model_dir"):
            call()


def refusal_without(package: str, directory: Path) -> str:
    """What `build` raises without the package, in a process of its own."""
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from realtime_tts.engine import models\n"
        "from realtime_tts.errors import ModelNotUsable\n"
        f"assert models.info('qwen3_tts', model_dir={str(directory)!r}).name\n"
        f"try: models.build('qwen3_tts', model_dir={str(directory)!r})\n"
        "except ModelNotUsable as error: print(error)\n"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_without_torch_the_error_names_the_command_that_installs_it(whole: Callable[[str], Path]) -> None:
    pytest.importorskip("torch")
    assert "needs torch: pip install 'realtime-tts[torch]'" in refusal_without("torch", whole("custom_voice"))


@pytest.mark.slow
def test_any_other_missing_package_is_named_too(whole: Callable[[str], Path]) -> None:
    pytest.importorskip("torch")
    for package in ("safetensors", "tokenizers"):
        assert f"needs {package}: pip install" in refusal_without(package, whole("custom_voice"))
