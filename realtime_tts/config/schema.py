"""Configuration schema: every setting with its type, bounds, default, description and flag."""

import ast
import contextlib
import inspect
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_origin, get_type_hints

from msgspec import Meta

from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.scheduling.policy import SCHEDULERS
from realtime_tts.session.limits import SessionLimits
from realtime_tts.text.cleaner import TextFilter

PREFIX = "REALTIME_TTS_"

Scalar: TypeAlias = bool | int | float | str


class Secret:
    """A value that is used and never shown."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __repr__(self) -> str:
        return "***"


# -- Sections.  The sentence under a field is its description in `--help` and in the configuration file. --------------


@dataclass(frozen=True, slots=True)
class ServerSection:
    host: str = "127.0.0.1"
    """Address to listen on.  0.0.0.0 is every address of this machine; it needs API keys or allow_public."""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8000
    """Port to listen on.  0 selects a free port."""
    max_sessions: Annotated[int, Meta(ge=1)] = 512
    """Limit of open sessions.  Further ones are refused with status 503."""
    tls_cert: Path | None = None
    """Certificate chain (PEM) for https and wss.  [default: no TLS]"""
    tls_key: Path | None = None
    """Private key of the certificate (PEM)."""
    origins: tuple[str, ...] = ()
    """Origins of web pages that may connect, such as "https://app.example.com", or "*" for all and "null" for pages
    from files: for local use.  The demo page always may."""
    hosts: tuple[str, ...] = ()
    """Host names of this server; requests for others are refused.  If empty on a public address, all are allowed."""
    allow_public: bool = False
    """Accept connections from other machines without API keys."""
    drain_s: float = 30.0
    """Seconds after SIGTERM in which open sessions may finish."""

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together")


@dataclass(frozen=True, slots=True)
class ModelSection:
    name: tuple[str, ...] = ("kokoro",)
    """kokoro (English), tone (test tones), or the directory or Hugging Face id of a Qwen3-TTS checkpoint.  The first
    model is the default one."""
    threads: Annotated[int, Meta(ge=1)] | None = None
    """CPU threads of each model.  [default: the cores of this machine]"""
    dir: Path | None = None
    """Directory of your own weights for the model.  [default: the embedded weights]"""
    options: dict[str, Scalar] = field(default_factory=dict)
    """NAME=VALUE sets an option of every model that has it, MODEL.NAME=VALUE that of one model."""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name must have at least one model")


@dataclass(frozen=True, slots=True)
class EngineSection(EngineConfig):
    compare: tuple[str, ...] = ()
    """Further scheduler for the first model, for comparison, such as policy_c.  Each is an engine of its own,
    MODEL@SCHEDULER, and loads the model again: about 350 MB for kokoro.  With Qwen3-TTS on a GPU also set the model's
    option slots, or the first engine takes all of its memory."""

    def __post_init__(self) -> None:
        EngineConfig.__post_init__(self)  # `super()` does not work in a class with slots before Python 3.14
        others = [name for name in SCHEDULERS if name != self.scheduler]
        if len(set(others) & set(self.compare)) < len(self.compare):
            raise ValueError(f"compare may name {', '.join(others)}, each once; got {', '.join(self.compare)}")


@dataclass(frozen=True, slots=True)
class ClusterSection:
    replicas: Annotated[int, Meta(ge=0, le=64)] = 0
    """Number of engines for each model, each in a process of its own, and on a GPU of its own where there are GPUs.
    When one is lost, its listeners go on with another.  0 is one engine in the server's own process."""
    addresses: tuple[str, ...] = ()
    """HOST:PORT of a `realtime-tts replica`, as an engine of the first model.  It needs the same cluster.token."""
    token: Secret | None = None
    """Secret that a server and its replicas share, at least 16 characters.  Best set by its environment variable."""
    silent_s: Annotated[float, Meta(gt=0)] = 2.0
    """Seconds without a message after which a replica counts as lost."""

    def __post_init__(self) -> None:
        if self.replicas and self.addresses:
            raise ValueError("replicas and addresses exclude each other")
        if self.addresses and self.token is None:
            raise ValueError("addresses need a token")
        if self.token is not None and len(self.token.reveal()) < 16:
            raise ValueError("token must have at least 16 characters")


@dataclass(frozen=True, slots=True)
class AuthSection:
    key_file: Path | None = None
    """File of API keys, one line per key as printed by `realtime-tts key`.  [default: no authentication]"""
    keys: Secret | None = None
    """API keys in plain text, as "name=key,name=key", for an environment variable.  A key file is safer."""
    token_ttl_s: Annotated[float, Meta(gt=0)] = 60.0
    """Seconds until a browser's single-use token expires."""

    def __post_init__(self) -> None:
        if self.key_file is not None and self.keys is not None:
            raise ValueError("key_file and keys exclude each other")


@dataclass(frozen=True, slots=True)
class HttpSection:
    voices_dir: Path | None = None
    """Directory of uploaded voices.  [default: uploads are disabled]"""
    voice_aliases: dict[str, str] = field(default_factory=dict)
    """Additional names of voices, over HTTP and WebSocket: alloy = "af_heart" for every model with that voice,
    kokoro.alloy for one model.  The models already have OpenAI's names: see `realtime-tts voices`."""
    text_filters: tuple[TextFilter, ...] = (TextFilter.MARKDOWN,)
    """Default of `text_filters` over HTTP: some of markdown, emoji, code, urls, tags.  A request may set others."""
    max_batch_items: Annotated[int, Meta(ge=1)] = 100
    """Limit of the items in one request to /v1/audio/speech/batch."""
    allow_ref_audio_urls: bool = False
    """Allow https URLs in `ref_audio`.  Private addresses are always refused."""
    allow_media_urls: bool = False
    """Allow https URLs of audio and images in a conversation.  Private addresses are always refused."""


@dataclass(frozen=True, slots=True)
class LoggingSection:
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged: debug, info, warning or error."""
    format: Literal["console", "json"] = "console"
    """Format of a log line: console for people, json for machines."""
    log_text: bool = False
    """Log the text that is spoken, and the messages of errors.  For debugging only: users' text is private."""


@dataclass(frozen=True, slots=True)
class MetricsSection:
    enabled: bool = True
    """Serve GET /metrics for Prometheus."""


@dataclass(frozen=True, slots=True)
class TracingSection:
    endpoint: str | None = None
    """OTLP endpoint, such as "http://collector:4318/v1/traces".  Requires the extra `tracing`.  [default: no traces]"""
    sample_ratio: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Share of sentences that are traced, 0 to 1."""

    def __post_init__(self) -> None:
        if self.endpoint is not None and not self.endpoint.startswith(("http://", "https://")):
            raise ValueError("endpoint must be an http or https URL")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    server: ServerSection = field(default_factory=ServerSection)
    model: ModelSection = field(default_factory=ModelSection)
    engine: EngineSection = field(default_factory=EngineSection)
    cluster: ClusterSection = field(default_factory=ClusterSection)
    session: SessionLimits = field(default_factory=SessionLimits)
    auth: AuthSection = field(default_factory=AuthSection)
    http: HttpSection = field(default_factory=HttpSection)
    logging: LoggingSection = field(default_factory=LoggingSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    tracing: TracingSection = field(default_factory=TracingSection)


SECTIONS: Mapping[str, type] = get_type_hints(ServerConfig)
FLAGS = {
    "server.host": "--host",
    "server.port": "--port",
    "model.name": "--model",
    "model.threads": "--threads",
    "model.dir": "--model-dir",
    "model.options": "--set",
    "server.max_sessions": "--max-sessions",
    "engine.max_wait_s": "--max-wait",
    "engine.scheduler": "--scheduler",
    "engine.compare": "--compare",
    "cluster.replicas": "--replicas",
    "cluster.addresses": "--replica",
    "auth.key_file": "--key-file",
    "server.tls_cert": "--tls-cert",
    "server.tls_key": "--tls-key",
    "server.allow_public": "--allow-public",
    "server.origins": "--origins",
    "server.drain_s": "--drain",
    "logging.level": "--log-level",
    "logging.format": "--log-format",
}
"""The settings that are also flags of the command line, in the order of `--help`."""


# -- One setting -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    path: str
    """`section.name`"""
    kind: Any
    """Its type, with the bounds."""
    default: object
    description: str

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.path.replace('.', '_')}".upper()

    @property
    def is_list(self) -> bool:
        return get_origin(self.kind) is tuple

    @property
    def is_table(self) -> bool:
        return get_origin(self.kind) is dict


@cache
def settings() -> Mapping[str, Setting]:
    """All settings by their path, in order."""
    found = {}
    for section, kind in SECTIONS.items():
        kinds, defaults, descriptions = get_type_hints(kind, include_extras=True), kind(), _descriptions(kind)
        for each in fields(kind):
            path, default = f"{section}.{each.name}", getattr(defaults, each.name)
            found[path] = Setting(path, kinds[each.name], default, descriptions.get(each.name, ""))
    return found


def _descriptions(kind: type) -> dict[str, str]:
    """The strings under the fields of a dataclass and of its bases.  Empty if the source code is not available."""
    found = {}
    for base in reversed(kind.__mro__[:-1]):
        with contextlib.suppress(OSError):
            (definition,) = ast.parse(inspect.getsource(base)).body
            assert isinstance(definition, ast.ClassDef)
            for named, below in itertools.pairwise(definition.body):
                if isinstance(named, ast.AnnAssign) and isinstance(below, ast.Expr):
                    found[ast.unparse(named.target)] = " ".join(str(ast.literal_eval(below.value)).split())
    return found
