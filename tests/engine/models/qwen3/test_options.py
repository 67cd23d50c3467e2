"""Options of both models are validated by name."""

import pytest

pytest.importorskip("torch")

import torch

from realtime_tts.engine.models.qwen3.options import DTYPES, parse_device, require_at_least, require_one_of
from realtime_tts.errors import ModelNotUsable


def test_devices_are_parsed() -> None:
    assert parse_device("cpu") == torch.device("cpu")
    assert parse_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("tpu", "", "mps", "cuda:99"):
        with pytest.raises(ModelNotUsable, match="device"):
            parse_device(name)


def test_values_are_checked() -> None:
    require_one_of("dtype", "float32", tuple(DTYPES))
    require_at_least("slots", 1, 1)
    with pytest.raises(ModelNotUsable, match="dtype must be float32, bfloat16 or float16, got 'int8'"):
        require_one_of("dtype", "int8", tuple(DTYPES))
    for value in (0, True, "2", 1.5):
        with pytest.raises(ModelNotUsable, match="slots must be an integer of at least 1"):
            require_at_least("slots", value, 1)
