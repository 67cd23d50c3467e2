"""A real server on a free loopback port, for tests that speak to one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model
from realtime_tts.engine.worker import EngineWorker
from realtime_tts.server import Server, ServerLimits, listening


@asynccontextmanager
async def tone_server(
    model: Model | None = None, limits: ServerLimits | None = None, config: EngineConfig | None = None
) -> AsyncIterator[tuple[str, Server]]:
    clock = MonotonicClock()
    engine = EngineWorker(model or tone.build(), clock, config=config)
    engine.start()
    server = Server(engine, clock, limits)
    try:
        async with listening(server, "127.0.0.1", 0) as url:
            yield url, server
    finally:
        await engine.stop()
