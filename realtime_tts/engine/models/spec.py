"""Declaration of a model: what the rest of the program knows about it without importing its packages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

from realtime_tts.engine.api import ModelInfo
from realtime_tts.engine.stage import Model
from realtime_tts.errors import ModelNotUsable

Report = Callable[[str], None]
"""Receives one line of text at a time."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a model reads a sentence."""

    spoken: str
    """The text in words: no digits, abbreviations or symbols."""
    phonemes: str | None
    """In the model's own symbols; None if the model reads letters."""


Reader = Callable[[str, str], Reading]
"""Reads a sentence with a voice, by `(text, voice)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """One model folder.  `build` and `info` import what they need when they are called."""

    name: str
    required_packages: tuple[str, ...] = ()
    """Distributions that this model needs in addition to those of the server."""
    build: Callable[..., Model]
    """Loads the model.  Its parameters are the model's options: all are keywords with defaults."""
    info: Callable[..., ModelInfo]
    """Describes the model without loading its weights."""
    loads_directories: bool = False
    """Whether it loads the directory or Hugging Face id that `--model` names, as the option `model_dir`."""
    model_type: str | None = None
    """The `model_type` in config.json of the directories that it loads; None for those that no other model loads."""
    hub_prefix: str | None = None
    """The beginning of the Hugging Face ids that it loads, which are not downloaded yet."""
    check: Callable[[Mapping[str, Any], float | None, Report], None] | None = None
    """Checks an installation by `(options, gpu_memory_gb, report)`, for a model too large to load for a check.

    `options` are complete.  `gpu_memory_gb` asks about a GPU of that size.  Raises ModelNotUsable.
    """

    reader: Callable[[], Reader] | None = None
    """Builds the text front end alone, without the weights; None if the model receives the text as it is."""

    @property
    def options(self) -> dict[str, Any]:
        """The defaults of all options, by name."""
        return {name: parameter.default for name, parameter in signature(self.build).parameters.items()}

    @property
    def reports_progress(self) -> bool:
        """Whether `build` has an option `progress`, which receives a line before each step that takes long."""
        return "progress" in self.options

    def complete_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """`options`, with the defaults of the others.  Raises ModelNotUsable for an unknown option."""
        if unknown := [name for name in options if name not in self.options]:
            listed = ", ".join(self.options)
            raise ModelNotUsable(f"model {self.name} has no option {', '.join(unknown)}; it has {listed}")
        return self.options | dict(options)
