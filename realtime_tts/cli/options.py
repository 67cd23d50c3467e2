"""Command-line options that the configuration schema generates."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from realtime_tts.config.load import load
from realtime_tts.config.schema import FLAGS, settings

MODEL_SETTINGS = ("model.name", "model.threads", "model.dir", "model.options")
CONFIG_HELP = "TOML file; see `realtime-tts config --toml`.  [env: REALTIME_TTS_CONFIG]"


def with_settings(*paths: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the option `--config` and an option for each setting, and calls it with `resolved: Resolved`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(config: Path | None, **given: Any) -> None:
            flags = {path: given.pop(path.replace(".", "_")) for path in paths}
            command(**given, resolved=load(config, {path: value for path, value in flags.items() if value}))

        own = [each for each in inspect.signature(command).parameters.values() if each.name != "resolved"]
        config = _parameter("config", Path, typer.Option("--config", help=CONFIG_HELP))
        run.__signature__ = inspect.Signature([*own, config, *map(_flag, paths)])  # type: ignore[attr-defined]
        return run

    return decorate


def _flag(path: str) -> inspect.Parameter:
    """Its value stays text: `config.load` converts it, as it converts environment variables."""
    setting = settings()[path]
    kind: Any = bool if setting.kind is bool else list[str] if setting.is_list or setting.is_table else str
    text = setting.description + ("  May be repeated." if kind == list[str] else "")
    if setting.default and kind is not bool:
        shown = ", ".join(setting.default) if isinstance(setting.default, tuple) else str(setting.default)
        text += f"  [default: {shown.removesuffix('.0')}]"
    option = typer.Option(FLAGS[path], metavar=None if kind is bool else f"<{path}>", help=text)
    return _parameter(path.replace(".", "_"), kind, option)


def _parameter(name: str, kind: Any, option: Any) -> inspect.Parameter:
    annotation = Annotated[kind | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
