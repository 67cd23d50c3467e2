"""Registry of models: each folder here declares one with a `ModelSpec`, and no other module knows it by name."""

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

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
    if name in specs() or not ("/" in name or Path(name).is_dir()):
        return name, None
    loaders = [spec for spec in specs().values() if spec.loads_directories]
    model_type = _model_type(Path(name).expanduser())
    for spec in loaders:
        by_id = spec.hub_prefix is not None and name.startswith(spec.hub_prefix)
        if spec.model_type is not None and (spec.model_type == model_type or by_id):
            return spec.name, name
    return next(spec.name for spec in loaders if spec.model_type is None), name


def _model_type(directory: Path) -> str | None:
    """The `model_type` in a directory's config.json; None if there is none that can be read."""
    try:
        return msgspec.json.decode((directory / "config.json").read_bytes(), type=_ConfigFile).model_type
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # the model that loads it reports what is wrong


class _ConfigFile(msgspec.Struct):
    model_type: str | None = None


def build(name: str, **options: Any) -> Model:
    """Loads the model `name`.  Raises ModelNotUsable, also for an unknown name or option."""
    spec = find(name)
    return spec.build(**spec.complete_options(options))


def info(name: str, **options: Any) -> ModelInfo:
    """Describes the model `name` without loading its weights.  Raises ModelNotUsable."""
    return find(name).info(**options)
