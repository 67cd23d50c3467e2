"""The package is found by name, and costs nothing before it is built."""

import subprocess
import sys
from pathlib import Path

import pytest

from realtime_tts.engine import models
from realtime_tts.errors import ModelNotUsable

ROOT = Path(__file__).parents[4]
HEAVY = {"torch", "safetensors", "tokenizers", "transformers"}


def test_it_is_one_of_the_models() -> None:
    assert "qwen3_tts" in models.names()


@pytest.mark.parametrize("module", ["", ".qwen3_tts", ".qwen3_tts.config"])
def test_importing_it_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, realtime_tts.engine.models{module}; print(*sorted({{n.split('.')[0] for n in sys.modules}}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not HEAVY & set(result.stdout.split())


def test_without_a_directory_it_says_what_is_needed() -> None:
    for ask in (lambda: models.info("qwen3_tts"), lambda: models.build("qwen3_tts")):
        with pytest.raises(ModelNotUsable, match="model_dir"):
            ask()


@pytest.mark.parametrize("missing", ["torch", "safetensors", "tokenizers"])
def test_a_missing_package_is_named_with_what_to_do(tmp_path: Path, missing: str) -> None:
    pytest.importorskip("torch")
    from tests.engine.models.qwen3_tts.make_whole import make_whole

    make_whole(tmp_path / "model", "custom_voice")
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from realtime_tts.engine import models\n"
        "from realtime_tts.errors import ModelNotUsable\n"
        f"print(models.qwen3_tts.info({str(tmp_path / 'model')!r}).name if hasattr(models, 'qwen3_tts') else '')\n"
        f"try: models.build('qwen3_tts', model_dir={str(tmp_path / 'model')!r})\n"
        "except ModelNotUsable as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert f"needs {missing}: pip install 'realtime-tts[torch]'" in done.stdout
