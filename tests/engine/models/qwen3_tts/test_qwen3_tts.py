"""The package is found by name, and costs nothing before it is built."""

import subprocess
import sys
from pathlib import Path

import pytest

from realtime_tts.engine import models

ROOT = Path(__file__).parents[4]
HEAVY = {"torch", "safetensors", "tokenizers", "transformers"}


def test_it_is_one_of_the_models() -> None:
    assert "qwen3_tts" in models.names()


@pytest.mark.parametrize("module", ["", ".qwen3_tts", ".qwen3_tts.config"])
def test_importing_it_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, realtime_tts.engine.models{module}; print(*sorted({{n.split('.')[0] for n in sys.modules}}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not HEAVY & set(result.stdout.split())
