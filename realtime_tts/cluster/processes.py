"""Replica processes of this machine: started, watched, restarted and ended by the server."""

import asyncio
import contextlib
import logging
import multiprocessing
import os
import secrets
import signal
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from realtime_tts.clock import Clock, MonotonicClock
from realtime_tts.cluster.host import ReplicaHost, listening
from realtime_tts.cluster.remote import RemoteEngine
from realtime_tts.cluster.router import ReplicatedEngine
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.stage import Model
from realtime_tts.errors import ModelNotUsable, RealtimeTTSError

log = logging.getLogger(__name__)

UNREADY_S = 5.0
"""How long a replica may accept no requests before its process is replaced."""
CHECK_INTERVAL_S = 0.25
RESTART_MIN_S = 0.5
RESTART_MAX_S = 30.0
STEADY_S = 60.0
"""A process that ran so long is restarted at once."""
STOP_TIMEOUT_S = 5.0

BuildsModel = Callable[[], Model]


class ReplicaProcesses:
    """Keeps `count` replicas of one engine running, and gives them to a router."""

    def __init__(
        self,
        router: ReplicatedEngine,
        build: BuildsModel,
        config: EngineConfig,
        count: int,
        *,
        environments: Callable[[int], Mapping[str, str]] = lambda _index: {},
        silent_s: float = 2.0,
        clock: Clock | None = None,
    ) -> None:
        """`build` is called in each process, so it must be picklable.  `environments`: of each replica, such as its
        GPU."""
        self._router = router
        self._build = build
        self._config = config
        self._count = count
        self._environments = environments
        self._silent_s = silent_s
        self._clock = clock or MonotonicClock()
        self._token = secrets.token_hex(32)
        self._keepers: list[asyncio.Task[None]] = []
        self._processes: dict[str, SpawnProcess] = {}

    async def start(self) -> None:
        """Returns when the first replica is ready; the others follow.  Raises `ModelNotUsable`."""
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keepers.append(asyncio.create_task(self._keep(0, first)))
        await first
        # The first may have prepared files that the others use as they are.
        self._keepers += [asyncio.create_task(self._keep(index)) for index in range(1, self._count)]

    async def stop(self) -> None:
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    @property
    def pids(self) -> Mapping[str, int]:
        """Process ids by the names of the replicas."""
        return {name: process.pid for name, process in self._processes.items() if process.pid is not None}

    async def replace(self, name: str, drain_s: float) -> None:
        """Replaces a process without a gap: its listeners finish, or move after `drain_s`; then it is started again."""
        self._router.drain(name)
        end_s = self._clock.now_s() + drain_s
        while self._clock.now_s() < end_s and self._router.replicas()[name].listeners:  # noqa: ASYNC110
            await asyncio.sleep(CHECK_INTERVAL_S)
        process = self._processes[name]
        self._router.remove(name)
        process.kill()
        while self._processes[name] is process or name not in self._router.replicas():  # noqa: ASYNC110
            await asyncio.sleep(CHECK_INTERVAL_S)

    async def _keep(self, index: int, first: "asyncio.Future[None] | None" = None) -> None:
        name, pause_s = f"replica-{index}", RESTART_MIN_S
        while True:
            began_s = self._clock.now_s()
            try:
                await self._run(name, index, first)
            except RealtimeTTSError as error:
                if first is not None and not first.done():
                    first.set_exception(error)
                    return
                log.error("%s could not be started: %s", name, error)
            pause_s = RESTART_MIN_S if self._clock.now_s() - began_s > STEADY_S else min(2 * pause_s, RESTART_MAX_S)
            log.warning("%s is started again in %.1f s", name, pause_s)
            await asyncio.sleep(pause_s)

    async def _run(self, name: str, index: int, first: "asyncio.Future[None] | None") -> None:
        """One process from its start to its end.  Raises `ModelNotUsable`."""
        here, there = multiprocessing.get_context("spawn").Pipe()
        arguments = (self._build, self._config, self._token, there, dict(self._environments(index)))
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=arguments, name=name, daemon=True)
        await asyncio.to_thread(process.start)
        there.close()
        self._processes[name] = process
        engine: RemoteEngine | None = None
        try:
            engine = RemoteEngine(f"http://127.0.0.1:{await _port(here)}", self._token, silent_s=self._silent_s)
            await engine.start()
            self._router.add(name, engine)
            log.info("%s is ready, process %d", name, process.pid)
            if first is not None and not first.done():
                first.set_result(None)
            await self._wait_for_loss(process, engine)
        finally:
            if name in self._router.replicas():
                self._router.remove(name)
            if engine is not None:
                await engine.stop()
            here.close()  # which ends the process
            await asyncio.shield(asyncio.to_thread(_end, process))

    async def _wait_for_loss(self, process: SpawnProcess, engine: RemoteEngine) -> None:
        unready_since_s: float | None = None
        while process.is_alive():
            now_s = self._clock.now_s()
            if engine.status().ready:
                unready_since_s = None
            elif unready_since_s is None:
                unready_since_s = now_s
            elif now_s - unready_since_s > UNREADY_S:
                log.error("%s accepts no requests: %s", process.name, engine.status().reason)
                process.kill()
            await asyncio.sleep(CHECK_INTERVAL_S)
        log.error("%s has ended with exit code %s", process.name, process.exitcode)


async def _port(pipe: Connection) -> int:
    """What the process reports when its model is loaded: its port, or why it cannot start."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pipe.fileno(), readable.set)
    try:
        await readable.wait()
        answer: int | str = pipe.recv()
    except EOFError:
        raise ModelNotUsable("the process of a replica has ended while it loaded the model") from None
    finally:
        loop.remove_reader(pipe.fileno())
    if isinstance(answer, str):
        raise ModelNotUsable(answer)
    return answer


def _end(process: SpawnProcess) -> None:
    process.join(STOP_TIMEOUT_S)
    if process.is_alive():
        process.kill()
        process.join()
    process.close()


# -- In the process of a replica --------------------------------------------------------------------------------------


def _serve(
    build: BuildsModel, config: EngineConfig, token: str, pipe: Connection, environment: Mapping[str, str]
) -> None:
    os.environ.update(environment)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the server ends it: it closes the pipe
    try:
        model = build()
    except RealtimeTTSError as error:
        pipe.send(str(error))
        return
    asyncio.run(_serve_engine(model, config, token, pipe))


async def _serve_engine(model: Model, config: EngineConfig, token: str, pipe: Connection) -> None:
    engine = EngineThread(model, MonotonicClock(), config=config)
    engine.start()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(pipe.fileno(), ended.set)
    async with listening(ReplicaHost(engine, token), "127.0.0.1", 0) as port:
        with contextlib.suppress(BrokenPipeError):
            pipe.send(port)
            await ended.wait()
    await engine.stop()
