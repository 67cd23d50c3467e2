"""Configuration loading: a flag overrides an environment variable, which overrides the file and the default.

An unknown name, a wrong type and a value out of range are refused, and the message names the place of the value.
"""

import difflib
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import msgspec

from realtime_tts.config.schema import FLAGS, PREFIX, SECTIONS, Scalar, Secret, ServerConfig, Setting, settings
from realtime_tts.errors import OperatorError

CONFIG_VARIABLE = f"{PREFIX}CONFIG"
DEFAULT = "default"
NONE = ("none", "-1")
"""Text that stands for no value."""
MAX_LISTED_NAMES = 20


class InvalidSetting(OperatorError):
    """A setting that is unknown, of the wrong type or out of range.  The message never contains a secret."""

    code = "invalid_setting"


@dataclass(frozen=True, slots=True)
class Resolved:
    config: ServerConfig
    origins: Mapping[str, str]
    """By path: `default`, or the place where the value was set."""
    unused: tuple[str, ...] = ()
    """Environment variables with our prefix that set nothing."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A value before conversion."""

    value: object
    origin: str
    folder: Path = Path()
    """Base of a relative path."""
    is_text: bool = True
    """Whether numbers and lists are still text, as in the environment and in flags."""


def load(config_file: Path | None = None, flags: Mapping[str, object] | None = None) -> Resolved:
    """Reads this process's environment, and the file of the flag `--config` or of REALTIME_TTS_CONFIG.

    `flags`: path -> text, list of texts or boolean.  Raises `InvalidSetting`.
    """
    return resolve(config_file=config_file, environment=os.environ, flags=flags or {})


def resolve(*, config_file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Resolved:
    if config_file is None and environment.get(CONFIG_VARIABLE):
        config_file = Path(environment[CONFIG_VARIABLE])
    sources = {} if config_file is None else _from_file(config_file)
    from_environment, unused = _from_environment(environment)
    sources |= from_environment
    sources |= {path: _Source(value, f"flag {FLAGS[path]}") for path, value in flags.items()}
    config = ServerConfig(**{section: _section(section, kind, sources) for section, kind in SECTIONS.items()})
    origins = {path: sources[path].origin if path in sources else DEFAULT for path in settings()}
    return Resolved(config, origins, unused)


def read_text(path: Path, setting: str | None = None) -> str:
    """`setting` is the one that names the file.  Raises `InvalidSetting`."""
    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read: {error.strerror or error}", param=setting) from None
    except UnicodeDecodeError:
        raise InvalidSetting(f"{path} is not UTF-8", param=setting) from None


def _from_file(path: Path) -> dict[str, _Source]:
    text = read_text(path)
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidSetting(f"{path} is not TOML: {error}") from None
    sources = {}
    for section, table in tables.items():
        if section not in SECTIONS:
            raise InvalidSetting(f"{path}: there is no section [{section}]{_suggestion(section, SECTIONS)}")
        if not isinstance(table, dict):
            raise InvalidSetting(f"{path}: {section} is a section: write [{section}], and its settings below")
        names = [each.name for each in fields(SECTIONS[section])]
        for name, value in table.items():
            if name not in names:
                raise InvalidSetting(f"{path}: there is no setting {name} in [{section}]{_suggestion(name, names)}")
            sources[f"{section}.{name}"] = _Source(value, f"{path}: {section}.{name}", path.parent, is_text=False)
    return sources


def _from_environment(environment: Mapping[str, str]) -> tuple[dict[str, _Source], tuple[str, ...]]:
    """Values by path, and the names of unused variables.  An empty variable sets nothing.

    An unknown name is refused only if it begins like a section: orchestrators set others, such as
    REALTIME_TTS_SERVICE_HOST for a service called realtime-tts.
    """
    variables = {each.variable: each.path for each in settings().values()}
    sources, unused = {}, []
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name == CONFIG_VARIABLE or not environment[name]:
            continue
        if name in variables:
            sources[variables[name]] = _Source(environment[name], f"environment {name}")
        elif name.removeprefix(PREFIX).split("_")[0].lower() in SECTIONS:
            raise InvalidSetting(f"environment: there is no setting {name}{_suggestion(name, variables)}")
        else:
            unused.append(name)
    return sources, tuple(unused)


def _suggestion(wrong: str, names: Iterable[str]) -> str:
    names = list(names)
    near = difflib.get_close_matches(wrong, names, 1)
    meant = f"; did you mean {near[0]}?  " if near else "; "
    return meant + (f"There are {', '.join(names)}" if len(names) < MAX_LISTED_NAMES else "See `realtime-tts config`")


# -- Conversion --------------------------------------------------------------------------------------------------------


def _section(section: str, kind: Callable[..., Any], sources: Mapping[str, _Source]) -> Any:
    given = {path: source for path, source in sources.items() if path.startswith(f"{section}.")}
    values = {path.partition(".")[2]: _value(settings()[path], source) for path, source in given.items()}
    try:
        return kind(**values)
    except ValueError as error:
        places = ", ".join(source.origin for source in given.values())
        raise InvalidSetting(f"[{section}] {error} (set by {places})") from None


def _value(setting: Setting, source: _Source) -> object:
    decode = partial(_own_type, source.folder)
    try:
        raw = _parsed(setting, source.value) if source.is_text else source.value
        if NoneType in get_args(setting.kind) and str(raw).lower() in NONE:
            return None
        raw = [raw] if setting.is_list and isinstance(raw, str) else _flat(raw) if isinstance(raw, dict) else raw
        value = msgspec.convert(raw, setting.kind, strict=not source.is_text, dec_hook=decode)
    except (msgspec.ValidationError, ValueError) as error:
        raise InvalidSetting(f"{source.origin}: {error}") from None
    if isinstance(value, int | float) and not (math.isfinite(value) and value >= 0):
        raise InvalidSetting(f"{source.origin}: must be a finite number that is not negative, got {value}")
    return value


def _parsed(setting: Setting, raw: object) -> object:
    """A list from `a,b` or JSON, a table from `name=value,name=value` or JSON; msgspec converts the rest."""
    if isinstance(raw, str):
        if any("\ud800" <= character <= "\udfff" for character in raw):
            raise ValueError("not UTF-8")  # Python decodes other bytes of the environment to surrogates
        raw = raw.strip()
        if (setting.is_list and raw.startswith("[")) or (setting.is_table and raw.startswith("{")):
            return _json(raw)
        if setting.is_list or setting.is_table:
            raw = [part.strip() for part in raw.split(",") if part.strip()]
    return dict(map(_option, raw)) if setting.is_table and isinstance(raw, list) else raw


def _json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None


def _option(pair: str) -> tuple[str, Scalar]:
    """Numbers, true and false are converted.  Raises ValueError."""
    name, equals, value = (part.strip() for part in pair.partition("="))
    if not equals or not name:
        raise ValueError(f"{pair!r} is not NAME=VALUE")
    try:
        return name, msgspec.json.decode(value, type=bool | int | float)
    except msgspec.DecodeError:
        return name, value


def _flat(table: Mapping[str, object]) -> dict[str, object]:
    """Inner tables as dotted names: `threads = 2` in [model.options.kokoro] is the option `kokoro.threads`."""
    flat: dict[str, object] = {}
    for name, value in table.items():
        inner = value if isinstance(value, dict) else {}
        flat |= {f"{name}.{key}": each for key, each in inner.items()} or {name: value}
    return flat


def _own_type(folder: Path, kind: type, value: object) -> object:
    """Converts what msgspec does not know: secrets and paths."""
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    if kind is Secret:
        return Secret(value)
    if not value or "\0" in value:
        raise ValueError("Expected a path")
    try:
        return folder / Path(value).expanduser()
    except RuntimeError:
        raise ValueError("No such user's home") from None
