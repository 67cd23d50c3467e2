"""Puts a server together from its configuration and takes it apart again: the one place that knows all the parts."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from realtime_tts.clock import Clock, MonotonicClock
from realtime_tts.config.schema import (
    AuthSection,
    HttpSection,
    InvalidSetting,
    ModelSection,
    ServerConfig,
    TracingSection,
)
from realtime_tts.engine import models
from realtime_tts.engine.api import EngineHandle, ModelInfo
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.observer import EngineObserver, EngineObservers, ObservedEngine
from realtime_tts.engine.stage import Model
from realtime_tts.frontends.engines import SCHEDULER_MARK
from realtime_tts.ops import logs
from realtime_tts.ops.metrics import Metrics
from realtime_tts.server.access import AccessRules
from realtime_tts.server.addresses import is_loopback
from realtime_tts.server.api_keys import KeyStore
from realtime_tts.server.app import Server, ServerLimits, ServerOptions, listening
from realtime_tts.server.tls import tls_context
from realtime_tts.session.observer import NoObserver
from realtime_tts.voices.download import FetchPolicy, fetch
from realtime_tts.voices.store import References, VoiceStore

if TYPE_CHECKING:
    from realtime_tts.ops.tracing import Tracing

log = logging.getLogger(__name__)

MODELS_THAT_TELL = frozenset({"kokoro", "qwen3_tts"})
"""Those that take `progress`, and tell of what takes long."""


def build_model(model: ModelSection, progress: Callable[[str], None]) -> Model:
    """Loads it, which may take a while.  Raises `ModelNotUsable`."""
    name, _folder = models.resolve(model.name)
    return models.build(name, **model_options(model, progress))


def model_options(model: ModelSection, progress: Callable[[str], None]) -> dict[str, Any]:
    """What the model's `build` is called with."""
    options: dict[str, Any] = dict(model.options)
    name, folder = models.resolve(model.name)
    if folder is not None:
        options["model_dir"] = folder
    if model.threads is not None:
        options["threads"] = model.threads
    if model.dir is not None:
        options["model_dir"] = model.dir
    if name in MODELS_THAT_TELL:
        options["progress"] = progress
    return options


@asynccontextmanager
async def serving(config: ServerConfig, progress: Callable[[str], None]) -> AsyncIterator[tuple[str, Server]]:
    """Builds models, engines and a server; yields its URL and itself, and ends all of them when the block ends.

    Raises an `OperatorError` for what keeps it from starting; the cheap checks come before the model is loaded.
    """
    logs.watch_loop(asyncio.get_running_loop())
    clock = MonotonicClock()
    access, tls = access_rules(config), None
    if config.server.tls_cert is not None and config.server.tls_key is not None:
        tls = tls_context(config.server.tls_cert, config.server.tls_key)
    metrics = Metrics() if config.metrics.enabled else None
    tracing = make_tracing(config.tracing, clock)
    async with AsyncExitStack() as stack:
        if tracing is not None:
            stack.push_async_callback(asyncio.to_thread, tracing.close)
        engines: dict[str, EngineHandle] = {}
        for scheduler in (config.engine.scheduler, *config.engine.compare):
            # Batches are counted where they are scheduled by default, lest one histogram mix several ways.
            counted = metrics if not engines else None
            engine = await stack.enter_async_context(_running(config, scheduler, clock, counted, tracing, progress))
            name = engine.info.name
            engines[name if not engines else f"{name}{SCHEDULER_MARK}{scheduler}"] = engine
        if metrics is not None:
            lag = asyncio.create_task(metrics.measure_loop_lag(clock))
            stack.callback(lag.cancel)
        server = _server(config, engines, clock, access, metrics)
        async with listening(server, config.server.host, config.server.port, tls=tls) as url:
            yield url, server


@asynccontextmanager
async def _running(
    config: ServerConfig,
    scheduler: str,
    clock: Clock,
    metrics: Metrics | None,
    tracing: "Tracing | None",
    progress: Callable[[str], None],
) -> AsyncIterator[EngineHandle]:
    """An engine with a model of its own: stages keep state by request, and are called from one thread alone."""
    if scheduler != config.engine.scheduler:
        progress(f"Loading the model once more, for {scheduler} ...")
    model = await asyncio.to_thread(build_model, config.model, progress)
    observers: list[EngineObserver] = [each for each in (metrics, tracing) if each is not None]
    engine_config = replace(config.engine, scheduler=scheduler, compare=())
    worker = EngineThread(model, clock, config=engine_config, observer=EngineObservers(*observers))
    worker.start()
    try:
        yield worker if tracing is None else ObservedEngine(worker, tracing)
    finally:
        await worker.stop()


def _server(
    config: ServerConfig,
    engines: Mapping[str, EngineHandle],
    clock: Clock,
    access: AccessRules,
    metrics: Metrics | None,
) -> Server:
    """`engines` by name, the default first."""
    limits = ServerLimits(
        max_sessions=config.server.max_sessions, token_life_s=config.auth.token_ttl_s, session=config.session
    )
    store = voice_store(config.http, next(iter(engines.values())).info)
    options = ServerOptions(
        access=access,
        observer=NoObserver() if metrics is None else metrics,
        fetch_reference=references(config.http, store),
        voices=store,
        voice_aliases=config.http.voice_aliases,
        metrics_text=None if metrics is None else metrics.text,
        scheduler=config.engine.scheduler,
    )
    if metrics is not None:
        options = replace(options, on_refused=metrics.rejected)
    server = Server(engines, clock, limits, options)
    if metrics is not None:
        metrics.watch_engine(server.engine_status)
        metrics.watch_sessions(lambda: server.active_sessions)
    return server


def make_tracing(section: TracingSection, clock: Clock) -> "Tracing | None":
    """None where no traces are wanted: then OpenTelemetry is not even imported.  Raises `InvalidSetting`."""
    if section.endpoint is None:
        return None
    try:
        from realtime_tts.ops.tracing import Tracing, provider_for
    except ImportError as error:
        raise InvalidSetting(f"tracing.endpoint: {error}; pip install 'realtime-tts[tracing]'") from None
    return Tracing(provider_for(section.endpoint, section.sample_ratio), clock)


def access_rules(config: ServerConfig) -> AccessRules:
    """Raises an `OperatorError`."""
    server = config.server
    try:
        return AccessRules(
            keys=key_store(config.auth),
            allowed_origins=frozenset(server.origins),
            public_hosts=frozenset(host.lower() for host in server.hosts),
            check_host=is_loopback(server.host) or bool(server.hosts),
        )
    except ValueError as error:
        raise InvalidSetting(f"[server] {error}") from None


def key_store(auth: AuthSection) -> KeyStore | None:
    """Who is let in, or None where nobody is asked.  Raises an `OperatorError`, which never quotes a key."""
    if auth.keys is not None:
        return KeyStore.from_plain(auth.keys.reveal())
    if auth.key_file is None:
        return None
    return KeyStore.from_lines(_read(auth.key_file).splitlines())


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise InvalidSetting(f"auth.key_file: {path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InvalidSetting(f"auth.key_file: {path} is not UTF-8") from None


def references(http: HttpSection, store: VoiceStore | None) -> References:
    """What `ref_audio` may mean."""
    fetch_url = partial(fetch, policy=FetchPolicy()) if http.allow_ref_audio_urls else None
    return References(store, fetch_url=fetch_url)


def voice_store(http: HttpSection, info: ModelInfo) -> VoiceStore | None:
    """Where uploaded voices are kept, where they are.  Raises `InvalidSetting` where that folder cannot be used."""
    if http.voices_dir is None:
        return None
    try:
        store = VoiceStore(http.voices_dir, reserved=info.voice_names)
    except OSError as error:
        raise InvalidSetting(f"http.voices_dir: {http.voices_dir}: {error.strerror or error}") from None
    for problem in store.problems:
        log.warning("an uploaded voice is passed over: %s", problem)
    return store
