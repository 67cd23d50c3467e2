"""Composition root: builds a server from its configuration, and shuts it down."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from realtime_tts.cli.configured_models import ConfiguredModel, configured_models
from realtime_tts.cli.voice_aliases import check_all_used, with_aliases
from realtime_tts.clock import Clock, MonotonicClock
from realtime_tts.cluster.addresses import ReplicaAddresses
from realtime_tts.cluster.gpus import gpu_environment
from realtime_tts.cluster.host import ReplicaHost
from realtime_tts.cluster.host import listening as replica_listening
from realtime_tts.cluster.processes import ReplicaProcesses
from realtime_tts.cluster.router import ReplicatedEngine
from realtime_tts.config.load import InvalidSetting, read_text
from realtime_tts.config.schema import AuthSection, ClusterSection, HttpSection, ServerConfig, TracingSection
from realtime_tts.engine.answers import AnswerEngine
from realtime_tts.engine.api import EngineHandle, ModelInfo
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.observer import EngineObserver, EngineObservers, ObservedEngine
from realtime_tts.engine.thinking.worker import ThinkerWorker
from realtime_tts.frontends.openai.api import HttpLimits
from realtime_tts.ops import logs
from realtime_tts.ops.metrics import Metrics
from realtime_tts.server.access import AccessRules
from realtime_tts.server.addresses import is_loopback
from realtime_tts.server.api_keys import KeyStore
from realtime_tts.server.app import Server, ServerLimits, ServerOptions, listening
from realtime_tts.server.tls import tls_context
from realtime_tts.session.observer import NoObserver
from realtime_tts.voices.download import FetchPolicy, fetch
from realtime_tts.voices.references import References
from realtime_tts.voices.resolver import BoundedResolver
from realtime_tts.voices.store import VoiceStore

if TYPE_CHECKING:
    from realtime_tts.ops.tracing import Tracing

log = logging.getLogger(__name__)


@asynccontextmanager
async def serving(config: ServerConfig, report: Callable[[str], None]) -> AsyncIterator[tuple[str, Server]]:
    """Builds models, engines and a server.  Yields the URL and the server, and ends all of them after the block.

    Raises an `OperatorError` if the server cannot start.  Quick checks come before the models are loaded.
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
        aliases = config.http.voice_aliases
        for name, model, engine_config in planned_engines(config):
            report(f"Loading {name} ...")
            cluster = config.cluster if not engines else replace(config.cluster, addresses=())
            engine = _engine(name, model, engine_config, cluster, clock, metrics, tracing, report)
            engines[name] = with_aliases(await stack.enter_async_context(engine), model.name, aliases)
        check_all_used(aliases, [engine.info for engine in engines.values()])
        if metrics is not None:
            lag = asyncio.create_task(metrics.measure_loop_lag(clock))
            stack.callback(lag.cancel)
            loop = asyncio.get_running_loop()
            metrics.watch_tasks(lambda: len(asyncio.all_tasks(loop)))
        server = _server(config, engines, clock, access, metrics)
        async with listening(server, config.server.host, config.server.port, tls=tls) as url:
            yield url, server


def planned_engines(config: ServerConfig) -> Sequence[tuple[str, ConfiguredModel, EngineConfig]]:
    """An engine for each model, the default first; then the first model again for each scheduler to compare."""
    configured = configured_models(config.model)
    default = replace(config.engine, compare=())
    first = configured[0]
    return [(model.name, model, default) for model in configured] + [
        (f"{first.name}@{scheduler}", first, replace(default, scheduler=scheduler))
        for scheduler in config.engine.compare
    ]


@asynccontextmanager
async def _engine(
    name: str,
    configured: ConfiguredModel,
    config: EngineConfig,
    cluster: ClusterSection,
    clock: Clock,
    metrics: Metrics | None,
    tracing: "Tracing | None",
    report: Callable[[str], None],
) -> AsyncIterator[EngineHandle]:
    """An engine that runs until the end of the block, with its own instance of the model.

    Two engines cannot share a model: its stages keep state by request, and only one thread may call them.
    """
    if cluster.replicas or cluster.addresses:
        async with _replicated(name, configured, config, cluster, clock, metrics) as engine:
            yield engine if tracing is None else ObservedEngine(engine, tracing)
        return
    model = await asyncio.to_thread(configured.load, report)
    observers: list[EngineObserver] = [] if tracing is None else [tracing]
    if metrics is not None:
        observers.append(metrics.engine_observer(name))
    worker = EngineThread(model, clock, config=config, observer=EngineObservers(*observers))
    worker.start()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(worker.stop)
        served: EngineHandle = worker
        if (answering := model.answering) is not None:
            thinker = ThinkerWorker(
                answering.make_thinker, clock, model.info.frame_s, step_timeout_s=config.stage_timeout_s
            )
            observer = None if metrics is None else metrics.answer_observer(name)
            served = answers = AnswerEngine(thinker, worker, answering.chat, clock, config=config, observer=observer)
            stack.push_async_callback(answers.stop)
            await answers.start()
        if metrics is not None:
            metrics.watch_engine(name, served.status)
        yield served if tracing is None else ObservedEngine(served, tracing)


@asynccontextmanager
async def _replicated(
    name: str,
    configured: ConfiguredModel,
    config: EngineConfig,
    cluster: ClusterSection,
    clock: Clock,
    metrics: Metrics | None,
) -> AsyncIterator[EngineHandle]:
    """One engine over several in other processes: processes of its own, or replicas that others supervise."""
    router = ReplicatedEngine(clock, on_redone=_ignore if metrics is None else metrics.redone(name))
    replicas: ReplicaProcesses | ReplicaAddresses
    if cluster.addresses:
        assert cluster.token is not None, "the schema requires it"
        replicas = ReplicaAddresses(router, cluster.addresses, cluster.token.reveal(), silent_s=cluster.silent_s)
    else:
        replicas = ReplicaProcesses(
            router,
            partial(configured.with_share(cluster.replicas).load, _ignore),
            config,
            cluster.replicas,
            environments=gpu_environment,
            silent_s=cluster.silent_s,
        )
    try:
        await replicas.start()
        if metrics is not None:
            metrics.watch_engine(name, router.status)
        yield router
    finally:
        await replicas.stop()


@asynccontextmanager
async def replica_serving(
    config: ServerConfig, host: str, port: int, report: Callable[[str], None]
) -> AsyncIterator[int]:
    """One engine for servers elsewhere, until the end of the block; yields the port.

    Raises an `OperatorError` if it cannot start.
    """
    assert config.cluster.token is not None, "the command requires it"
    metrics, clock = Metrics(), MonotonicClock()
    ((name, configured, engine_config), *_others) = planned_engines(config)
    report(f"Loading {name} ...")
    async with _engine(name, configured, engine_config, ClusterSection(), clock, metrics, None, report) as engine:
        served = ReplicaHost(engine, config.cluster.token.reveal(), metrics_text=metrics.text)
        async with replica_listening(served, host, port) as actual_port:
            yield actual_port


def _ignore(_text: str) -> None: ...


def _server(
    config: ServerConfig,
    engines: Mapping[str, EngineHandle],
    clock: Clock,
    access: AccessRules,
    metrics: Metrics | None,
) -> Server:
    limits = ServerLimits(
        max_sessions=config.server.max_sessions, token_life_s=config.auth.token_ttl_s, session=config.session
    )
    store = voice_store(config.http, reserved_names(engine.info for engine in engines.values()))
    options = ServerOptions(
        access=access,
        observer=NoObserver() if metrics is None else metrics,
        fetch_reference=references(config.http, store),
        fetch_media=partial(fetch, policy=FetchPolicy()) if config.http.allow_media_urls else None,
        http=HttpLimits(max_batch_items=config.http.max_batch_items, text_filters=config.http.text_filters),
        voices=store,
        metrics_text=None if metrics is None else metrics.text,
        scheduler=config.engine.scheduler,
    )
    if metrics is not None:
        options = replace(options, on_refused=metrics.rejected)
    server = Server(engines, clock, limits, options)
    if metrics is not None:
        metrics.watch_sessions(lambda: server.active_sessions)
    return server


def make_tracing(section: TracingSection, clock: Clock) -> "Tracing | None":
    """None if tracing is off: then OpenTelemetry is not imported.  Raises `InvalidSetting`."""
    if section.endpoint is None:
        return None
    try:
        from realtime_tts.ops.tracing import Tracing, provider_for
    except ImportError as error:
        raise InvalidSetting(f"{error}; pip install 'realtime-tts[tracing]'", param="tracing.endpoint") from None
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
    """The accepted API keys, or None without authentication.  Raises an `OperatorError`, which never quotes a key."""
    if auth.keys is not None:
        return KeyStore.from_plain(auth.keys.reveal())
    if auth.key_file is None:
        return None
    return KeyStore.from_lines(read_text(auth.key_file, "auth.key_file").splitlines())


def references(http: HttpSection, store: VoiceStore | None) -> References:
    """What a client may send as `ref_audio`."""
    fetch_url = None
    if http.allow_ref_audio_urls:
        fetch_url = partial(fetch, policy=FetchPolicy(), resolver=BoundedResolver())
    return References(store, fetch_url=fetch_url)


def reserved_names(infos: Iterable[ModelInfo]) -> frozenset[str]:
    """Names that no uploaded voice may have: those of the models' voices, and aliases beside which it would be used."""
    return frozenset(
        name for info in infos for name in (*info.voice_names, *(info.voice_aliases if info.clones_voices else ()))
    )


def voice_store(http: HttpSection, reserved: Collection[str]) -> VoiceStore | None:
    """The uploaded voices, or None if uploads are disabled.  `reserved` are the names that no upload may have.

    Raises `InvalidSetting` if the folder cannot be used.
    """
    if http.voices_dir is None:
        return None
    try:
        store = VoiceStore(http.voices_dir, reserved=reserved)
    except OSError as error:
        raise InvalidSetting(f"{http.voices_dir}: {error.strerror or error}", param="http.voices_dir") from None
    for skipped in store.skipped:
        log.warning("an uploaded voice is skipped: %s", skipped)
    return store
