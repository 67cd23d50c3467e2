"""Models of a configuration: their names, and the options with which they are loaded."""

import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from realtime_tts.config.load import InvalidSetting
from realtime_tts.config.schema import ModelSection
from realtime_tts.engine import models
from realtime_tts.engine.api import ModelInfo
from realtime_tts.engine.stage import Model


@dataclass(frozen=True, slots=True)
class ConfiguredModel:
    name: str
    """The name that requests select it by."""
    kind: str
    """The name of its folder in `engine.models`."""
    options: dict[str, Any]
    """Keyword arguments of its `build`."""

    def load(self, progress: Callable[[str], None]) -> Model:
        """Blocks for seconds to minutes.  Raises `ModelNotUsable`."""
        return models.build(self.kind, **self.build_options(progress))

    def with_share(self, count: int) -> "ConfiguredModel":
        """The same model for one of `count` processes that share the cores of this machine."""
        if "threads" not in models.find(self.kind).options or "threads" in self.options:
            return self
        threads = max(1, len(os.sched_getaffinity(0)) // count) if hasattr(os, "sched_getaffinity") else 1
        return replace(self, options=self.options | {"threads": threads})

    def build_options(self, progress: Callable[[str], None]) -> dict[str, Any]:
        return self.options | ({"progress": progress} if models.find(self.kind).reports_progress else {})

    def info(self) -> ModelInfo:
        """Describes the model without its weights.  May download a Hugging Face id.  Raises `ModelNotUsable`."""
        directory = {"model_dir": self.options["model_dir"]} if models.find(self.kind).loads_directories else {}
        return models.info(self.kind, **directory)


def configured_models(section: ModelSection) -> tuple[ConfiguredModel, ...]:
    """The models to load, the default one first.

    An option goes to every model that has it, MODEL.NAME to one of them.  Raises `ModelNotUsable`, and `InvalidSetting`
    for an unknown option and for two models of one name.
    """
    options: dict[str, dict[str, Any]] = defaultdict(dict)
    """By model; those of all models are under an empty name."""
    for path, value in section.options.items():
        model, _, option = path.rpartition(".")
        options[model][option] = value
    common = options.pop("", {})
    common |= {} if section.threads is None else {"threads": section.threads}
    common |= {} if section.dir is None else {"model_dir": section.dir}
    unused = set(common)
    found: dict[str, ConfiguredModel] = {}
    for given in section.name:
        kind, directory = models.resolve(given)
        directory_option = {} if directory is None else {"model_dir": directory}
        usable = set(models.find(kind).options) - directory_option.keys()
        unused -= usable
        chosen = {name: value for name, value in common.items() if name in usable} | directory_option
        name = _name(kind, chosen)
        chosen |= options.pop(name, {})
        if name in found or "@" in name:  # MODEL@SCHEDULER is an engine for comparison
            raise InvalidSetting(f"{given} would be another model {name}; rename its directory", param="model.name")
        if unknown := chosen.keys() - models.find(kind).options.keys():
            raise InvalidSetting(f"{name} has no option {min(unknown)}; {_listed(kind)}", param="model.options")
        found[name] = ConfiguredModel(name, kind, chosen)
    if unused:
        listed = "; ".join(_listed(kind) for kind in dict.fromkeys(model.kind for model in found.values()))
        raise InvalidSetting(f"there is no option {min(unused)}; {listed}", param="model")
    if options:
        raise InvalidSetting(f"there is no model {min(options)}; there are {', '.join(found)}", param="model.options")
    return tuple(found.values())


def _name(kind: str, options: dict[str, Any]) -> str:
    if not models.find(kind).loads_directories or "model_dir" not in options:
        return kind
    path = Path(options["model_dir"]).expanduser()
    return models.info(kind, model_dir=path).name if path.is_dir() else path.name  # else a Hugging Face id


def _listed(kind: str) -> str:
    return f"{kind} has {', '.join(name for name in models.find(kind).options if name != 'progress')}"
