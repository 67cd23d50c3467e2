"""Values of options that both models have."""

import torch

from realtime_tts.errors import ModelNotUsable

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def parse_device(name: str) -> torch.device:
    """Raises ModelNotUsable."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ModelNotUsable(f"device must be auto, cpu, cuda or cuda:N, got {name!r}") from error
    if device.type not in ("cpu", "cuda"):
        raise ModelNotUsable(f"device must be auto, cpu, cuda or cuda:N, got {name!r}")
    if device.type == "cuda" and not (device.index or 0) < torch.cuda.device_count():
        raise ModelNotUsable(f"device {name} does not exist; torch sees {torch.cuda.device_count()} GPUs")
    return device


def require_one_of(option: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raises ModelNotUsable."""
    if value not in allowed:
        *others, last = map(str, allowed)
        raise ModelNotUsable(f"{option} must be {', '.join(others)} or {last}, got {value!r}")


def require_at_least(option: str, value: object, least: int) -> None:
    """Raises ModelNotUsable for what is not an integer of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ModelNotUsable(f"{option} must be an integer of at least {least}, got {value!r}")
