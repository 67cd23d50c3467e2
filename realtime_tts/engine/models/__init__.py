"""Registry of models: each folder here declares one with a `ModelSpec`, and no other module knows it by name."""

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from realtime_tts.engine.api import ModelInfo
from realtime_tts.engine.models.spec import ModelSpec
from realtime_tts.engine.stage import Model
from realtime_tts.errors import ModelNotUsable


@functools.cache
def specs() -> Mapping[str, ModelSpec]:
    """All declared models by name.  Imports their packages, which import nothing heavy."""
    folders = [
        importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__) if each.ispkg
    ]
    found = [value for folder in folders for value in vars(folder).values() if isinstance(value, ModelSpec)]
    return {spec.name: spec for spec in sorted(found, key=lambda spec: spec.name)}


def find(name: str) -> ModelSpec:
    """The declaration of the model `name`.  Raises ModelNotUsable, which lists the models that exist."""
    if name not in specs():
        raise ModelNotUsable(f"there is no model {name!r}; there are {', '.join(specs())}")
    return specs()[name]


def resolve(name: str) -> tuple[str, str | None]:
    """The model and the `model_dir` that `--model NAME`, `--model DIR` or a Hugging Face id stand for."""
    if name not in specs() and ("/" in name or Path(name).is_dir()):
        return next(spec.name for spec in specs().values() if spec.loads_directories), name
    return name, None


def build(name: str, **options: Any) -> Model:
    """Loads the model `name`.  Raises ModelNotUsable, also for an unknown name or option."""
    spec = find(name)
    return spec.build(**spec.complete_options(options))


def info(name: str, **options: Any) -> ModelInfo:
    """Describes the model `name` without loading its weights.  Raises ModelNotUsable."""
    return find(name).info(**options)
