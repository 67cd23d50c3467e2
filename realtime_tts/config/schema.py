"""What an operator may set, and where each value came from: the only reader of configuration files and environment.

A flag goes before an environment variable, that before the file, and that before the default.  Nothing is guessed:
what is unknown or of the wrong type is refused, with the name of where it stands.
"""

import ast
import difflib
import inspect
import math
import os
import tomllib
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

from realtime_tts.engine.config import EngineConfig
from realtime_tts.errors import OperatorError
from realtime_tts.session.limits import SessionLimits

PREFIX = "REALTIME_TTS_"
CONFIG_VARIABLE = "REALTIME_TTS_CONFIG"
DEFAULT = "default"
MAY_BE_ZERO = frozenset({"sentences_ahead"})

Scalar: TypeAlias = bool | int | float | str


class InvalidSetting(OperatorError):
    """A setting that is unknown, of the wrong type or out of range.  Names the place, and never a secret's value."""

    code = "invalid_setting"


class Secret:
    """A value that is used and never shown."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret(***)"


# -- The sections.  The sentence under a field is what the commented template says of it. ------------------------------


@dataclass(frozen=True, slots=True)
class ServerSection:
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for all, which needs keys (section auth)."""
    port: int = 8000
    """0 takes a free one."""
    max_sessions: int = 512
    """Connections at once; one more gets 503.  How many may speak at once is for admission to say."""
    tls_cert: Path | None = None
    """Certificate chain (PEM).  With it the server speaks https and wss."""
    tls_key: Path | None = None
    """Its private key (PEM)."""
    origins: tuple[str, ...] = ()
    """Web pages that may connect beside our own, such as "https://app.example.com"."""
    hosts: tuple[str, ...] = ()
    """Names by which clients call this server; others are refused.  Empty on a public address: all are let in."""
    allow_public: bool = False
    """Listen beyond this machine without keys."""
    drain_s: float = 30.0
    """After SIGTERM: how long what has begun may go on."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise ValueError(f"port must be 0 to 65535, got {self.port}")
        if self.max_sessions < 1:
            raise ValueError(f"max_sessions must be at least 1, got {self.max_sessions}")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together")


@dataclass(frozen=True, slots=True)
class ModelSection:
    name: str = "kokoro"
    """kokoro speaks English; tone only makes test tones; or the directory of a Qwen3-TTS checkpoint, or its hub id."""
    threads: int | None = None
    """Threads that compute speech.  Left out: the cores of this machine."""
    dir: Path | None = None
    """Your own weights, in place of the embedded ones."""
    options: dict[str, Scalar] = field(default_factory=dict)
    """More options of the model, by name."""

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be at least 1, got {self.threads}")


@dataclass(frozen=True, slots=True)
class AuthSection:
    key_file: Path | None = None
    """The keys that are let in, hashed, one a line: `realtime-tts key NAME` prints such a line."""
    keys: Secret | None = None
    """The same in plain, as "name=key,name=key": for an environment variable.  A file is better."""
    token_ttl_s: float = 60.0
    """How long a browser's single-use token is good for."""

    def __post_init__(self) -> None:
        if self.key_file is not None and self.keys is not None:
            raise ValueError("key_file and keys exclude each other")
        if self.token_ttl_s == 0:
            raise ValueError("token_ttl_s must be positive")


@dataclass(frozen=True, slots=True)
class HttpSection:
    voices_dir: Path | None = None
    """Where uploaded voices are kept.  Left out: no uploads."""
    voice_aliases: dict[str, str] = field(default_factory=dict)
    """Other names of voices over HTTP, such as OpenAI's: alloy = "af_heart"."""
    allow_ref_audio_urls: bool = False
    """Whether `ref_audio` may be an https URL, never to a private address."""


@dataclass(frozen=True, slots=True)
class LoggingSection:
    level: Literal["debug", "info", "warning", "error"] = "info"
    """debug, info, warning or error."""
    format: Literal["console", "json"] = "console"
    """console, or json: one object a line."""
    log_text: bool = False
    """Show what is spoken, and what errors say of it, in the log.  For finding faults only."""


@dataclass(frozen=True, slots=True)
class MetricsSection:
    enabled: bool = True
    """Serve GET /metrics for Prometheus."""


@dataclass(frozen=True, slots=True)
class TracingSection:
    endpoint: str | None = None
    """OTLP over HTTP, such as "http://collector:4318/v1/traces".  Needs the extra `tracing`.  Left out: no traces."""
    sample_ratio: float = 1.0
    """Share of sentences that are traced, 0 to 1."""

    def __post_init__(self) -> None:
        if self.endpoint is not None and not self.endpoint.startswith(("http://", "https://")):
            raise ValueError("endpoint must be an http or https URL")
        if not 0 <= self.sample_ratio <= 1:
            raise ValueError(f"sample_ratio must be 0 to 1, got {self.sample_ratio}")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    server: ServerSection = field(default_factory=ServerSection)
    model: ModelSection = field(default_factory=ModelSection)
    engine: EngineConfig = field(default_factory=EngineConfig)
    session: SessionLimits = field(default_factory=SessionLimits)
    auth: AuthSection = field(default_factory=AuthSection)
    http: HttpSection = field(default_factory=HttpSection)
    logging: LoggingSection = field(default_factory=LoggingSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    tracing: TracingSection = field(default_factory=TracingSection)


SECTIONS: dict[str, type] = get_type_hints(ServerConfig)


@dataclass(frozen=True, slots=True)
class Setting:
    """One name that may be set."""

    section: str
    name: str
    kind: Any
    """Its type, as annotated."""
    what: str

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.section}_{self.name}".upper()

    @property
    def secret(self) -> bool:
        return Secret in get_args(self.kind)


@cache
def settings() -> Mapping[str, Setting]:
    """All of them, by their path `section.name`, in order."""
    found = {}
    for section, kind in SECTIONS.items():
        hints, docs = get_type_hints(kind), _field_docs(kind)
        for each in fields(kind):
            setting = Setting(section, each.name, hints[each.name], docs.get(each.name, ""))
            found[setting.path] = setting
    return found


def _field_docs(kind: type) -> dict[str, str]:
    """The strings that stand under a dataclass' fields; none where its source is not at hand."""
    try:
        body = ast.parse(inspect.getsource(kind)).body[0]
    except (OSError, IndentationError):
        return {}
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for named, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(named, ast.AnnAssign) and isinstance(named.target, ast.Name) and isinstance(below, ast.Expr):
            docs[named.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return docs


# -- Where values come from --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Given:
    """A value as somebody gave it."""

    value: object
    origin: str
    folder: Path
    """What a relative path is relative to."""
    in_words: bool = False
    """Whether it is text that still has to be read as a number, a list, ..."""


@dataclass(frozen=True, slots=True)
class Resolved:
    config: ServerConfig
    origins: Mapping[str, str]
    """By path: `default`, or where the value was set."""
    unused: tuple[str, ...] = ()
    """Environment variables with our prefix that set nothing."""


def load(config_file: Path | None = None, flags: Mapping[str, tuple[str, object]] | None = None) -> Resolved:
    """Reads this process' environment, and the file that is named by the flag `--config` or by REALTIME_TTS_CONFIG.

    `flags`: `section.name` -> (the flag, its value).  Raises `InvalidSetting`.
    """
    return resolve(config_file=config_file, environment=os.environ, flags=flags or {})


def resolve(
    *, config_file: Path | None, environment: Mapping[str, str], flags: Mapping[str, tuple[str, object]]
) -> Resolved:
    if config_file is None and environment.get(CONFIG_VARIABLE):
        config_file = Path(environment[CONFIG_VARIABLE])
    given = {} if config_file is None else _from_file(config_file)
    from_environment, unused = _from_environment(environment)
    given |= from_environment
    given |= {path: Given(value, f"flag {flag}", Path()) for path, (flag, value) in flags.items()}
    sections = {section: _section(section, kind, given) for section, kind in SECTIONS.items()}
    origins = {path: given[path].origin if path in given else DEFAULT for path in settings()}
    return Resolved(ServerConfig(**sections), origins, unused)


def _from_file(path: Path) -> dict[str, Given]:
    try:
        tables = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InvalidSetting(f"{path} is not UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidSetting(f"{path} is not TOML: {error}") from None
    given = {}
    for section, table in tables.items():
        if section not in SECTIONS:
            raise InvalidSetting(f"{path}: there is no section [{section}]{_instead(section, SECTIONS)}")
        if not isinstance(table, dict):
            raise InvalidSetting(f"{path}: {section} is a section: write [{section}], and its settings below")
        for name, value in table.items():
            if f"{section}.{name}" not in settings():
                names = [each.name for each in settings().values() if each.section == section]
                raise InvalidSetting(f"{path}: there is no setting {name} in [{section}]{_instead(name, names)}")
            given[f"{section}.{name}"] = Given(value, f"{path}: {section}.{name}", path.parent)
    return given


def _from_environment(environment: Mapping[str, str]) -> tuple[dict[str, Given], tuple[str, ...]]:
    """What is set, and what looks like ours and is not.  An empty variable sets nothing.

    Unknown ones are only refused where they begin like a section: an orchestrator sets others by itself, such as
    REALTIME_TTS_SERVICE_HOST for a service called realtime-tts.
    """
    variables = {each.variable: each.path for each in settings().values()}
    given, unused = {}, []
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name == CONFIG_VARIABLE or not environment[name]:
            continue
        if name in variables:
            given[variables[name]] = Given(environment[name], f"environment {name}", Path(), in_words=True)
        elif name.removeprefix(PREFIX).split("_")[0].lower() in SECTIONS:
            raise InvalidSetting(f"environment: there is no setting {name}{_instead(name, variables)}")
        else:
            unused.append(name)
    return given, tuple(unused)


def _instead(wrong: str, allowed: Iterable[str]) -> str:
    allowed = list(allowed)
    near = difflib.get_close_matches(wrong, allowed, 1)
    meant = f"; did you mean {near[0]}?  " if near else "; "
    # The whole environment is too long a list to be of use.
    return meant + (f"There are {', '.join(allowed)}" if len(allowed) < 20 else "See `realtime-tts config`")


# -- From what was given to typed values -------------------------------------------------------------------------------


def _section(section: str, kind: type, given: Mapping[str, Given]) -> Any:
    mine = [each for each in settings().values() if each.section == section and each.path in given]
    values = {each.name: _value(each, given[each.path]) for each in mine}
    build: Callable[..., Any] = kind
    try:
        return build(**values)
    except ValueError as error:
        places = ", ".join(given[each.path].origin for each in mine)
        raise InvalidSetting(f"[{section}] {error} (set by {places})") from None


def _value(setting: Setting, given: Given) -> object:
    raw = given.value
    if isinstance(raw, str) and not _is_text(raw):
        raise InvalidSetting(f"{given.origin}: not UTF-8")
    if given.in_words:
        assert isinstance(raw, str)
        raw = _read_words(setting.kind, raw.strip(), given.origin)
    if isinstance(raw, str) and raw.lower() == "none" and types.NoneType in get_args(setting.kind):
        return None
    decode = partial(_decode_own_type, given.folder)
    try:
        value = msgspec.convert(raw, setting.kind, strict=not given.in_words, dec_hook=decode)
    except msgspec.ValidationError as error:
        raise InvalidSetting(f"{given.origin}: {error}") from None
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(setting, value, given.origin)
    return value


def _is_text(value: str) -> bool:
    """Not so for the bytes of an environment that are no UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_number(setting: Setting, value: float, origin: str) -> None:
    if not math.isfinite(value) or value < 0:
        raise InvalidSetting(f"{origin}: must be a finite number that is not negative, got {value}")
    if setting.section == "session" and value == 0 and setting.name not in MAY_BE_ZERO:
        raise InvalidSetting(f"{origin}: must be positive")


def _read_words(kind: Any, words: str, origin: str) -> object:
    """Lists as `a,b`, options as `name=value,name=value`; the rest is for msgspec to read."""
    if get_origin(kind) is tuple:
        return [part.strip() for part in words.split(",") if part.strip()]
    if get_origin(kind) is dict:
        return options_in_words(words.split(","), origin)
    return words


def options_in_words(pairs: Iterable[str], origin: str) -> dict[str, Scalar]:
    """NAME=VALUE each; numbers, true and false are read as such.  Raises `InvalidSetting`."""
    options: dict[str, Scalar] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            raise InvalidSetting(f"{origin}: {pair!r} is not NAME=VALUE")
        try:
            options[name] = msgspec.json.decode(value, type=bool | int | float)
        except msgspec.DecodeError:
            options[name] = value
    return options


def _decode_own_type(folder: Path, kind: type, value: object) -> object:
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    if kind is Secret:
        return Secret(value)
    assert kind is Path, kind
    if not value or "\0" in value:
        raise ValueError("Expected a path")
    try:
        return folder / Path(value).expanduser()
    except RuntimeError:
        raise ValueError("No such user's home") from None
