"""The models, each a file or folder here, found by name: importing one loads what it needs and nothing else does."""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, cast

from realtime_tts.engine.stage import Model
from realtime_tts.errors import ModelNotUsable


def names() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def build(name: str, **options: Any) -> Model:
    """Builds the model called `name` by its own `build(**options)`, which says what may be set.

    Raises `ModelNotUsable` for an unknown name, and for whatever keeps the model from being used.
    """
    if name not in names():
        raise ModelNotUsable(f"there is no model {name!r}; there are {', '.join(names())}")
    module = importlib.import_module(f"{__name__}.{name}")
    return cast(Callable[..., Model], module.build)(**options)
