"""GPUs of this machine, and the one that each replica uses."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "CUDA_VISIBLE_DEVICES"


def visible_gpus(devices: Path = Path("/dev")) -> tuple[str, ...]:
    """As CUDA names them; none without a driver.  torch is not asked: it would take memory of each GPU."""
    if VARIABLE in os.environ:
        return tuple(name for name in os.environ[VARIABLE].split(",") if name.strip() and name.strip() != "-1")
    numbers = (found.group(1) for path in devices.glob("nvidia*") if (found := re.fullmatch(r"nvidia(\d+)", path.name)))
    return tuple(sorted(numbers, key=int))


def gpu_environment(index: int) -> Mapping[str, str]:
    """The environment of replica `index`: one GPU, by turns; empty without GPUs."""
    gpus = visible_gpus()
    return {VARIABLE: gpus[index % len(gpus)]} if gpus else {}
