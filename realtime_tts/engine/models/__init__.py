"""The models, each a file or folder here, found by name: importing one loads what it needs and nothing else does."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from realtime_tts.engine.api import ModelInfo
from realtime_tts.engine.stage import Model
from realtime_tts.errors import ModelNotUsable

LOADS_DIRECTORIES = "qwen3_tts"


def names() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def resolve(name: str) -> tuple[str, str | None]:
    """A model by its name; or by the directory or Hugging Face id of its weights, and then by whom these are loaded."""
    if name not in names() and ("/" in name or Path(name).is_dir()):
        return LOADS_DIRECTORIES, name
    return name, None


def build(name: str, **options: Any) -> Model:
    """Builds the model called `name` by its own `build(**options)`, which says what may be set.

    Raises `ModelNotUsable` for an unknown name or option, and for whatever else keeps the model from being used.
    """
    build_model: Callable[..., Model] = _module(name).build
    allowed = inspect.signature(build_model).parameters
    if unknown := [option for option in options if option not in allowed]:
        raise ModelNotUsable(f"model {name} has no option {', '.join(unknown)}; it has {', '.join(allowed)}")
    return build_model(**options)


def options(name: str) -> tuple[str, ...]:
    """The options of the model called `name`.  Raises `ModelNotUsable`."""
    return tuple(inspect.signature(_module(name).build).parameters)


def loads_directories(name: str) -> bool:
    """Whether the model called `name` is given its weights as a directory."""
    return name == LOADS_DIRECTORIES


def info(name: str, **options: Any) -> ModelInfo:
    """What the model called `name` can do, without loading its weights.  Raises `ModelNotUsable`."""
    describe: Callable[..., ModelInfo] = _module(name).info
    return describe(**options)


def _module(name: str) -> ModuleType:
    if name not in names():
        raise ModelNotUsable(f"there is no model {name!r}; there are {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name}")
