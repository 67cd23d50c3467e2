"""An engine behind a socket of this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from realtime_tts.clock import MonotonicClock
from realtime_tts.cluster.host import ReplicaHost, listening
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model

TOKEN = "secret"


@asynccontextmanager
async def hosted(model: Model | None = None) -> AsyncIterator[tuple[str, EngineThread]]:
    """The URL, and the engine."""
    engine = EngineThread(model or tone.build(), MonotonicClock(), config=EngineConfig(max_wait_s=None))
    engine.start()
    try:
        async with listening(ReplicaHost(engine, TOKEN), "127.0.0.1", 0) as port:
            yield f"http://127.0.0.1:{port}", engine
    finally:
        await engine.stop()
