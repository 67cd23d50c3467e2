"""A server shared by a test and a neighbour: a second client whose audio must stay exact."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model
from realtime_tts.server.app import ServerLimits
from realtime_tts.session.limits import SessionLimits
from tests.base_client import base_client
from tests.fakes import slots, spoken_pcm, until
from tests.serving import tone_server

STREAM = {"response_format": "pcm", "stream_audio": True}
NEIGHBOUR_TEXT = "The neighbour speaks. And speaks again, at some length."


@asynccontextmanager
async def shared_server(limits: SessionLimits | None = None, model: Model | None = None) -> AsyncIterator[str]:
    """The URL of a server that the neighbour uses throughout; at the end the server must hold no session or request."""
    model = model or tone.build()
    async with tone_server(model, ServerLimits(session=limits or SessionLimits())) as (url, server):
        stop = asyncio.Event()
        neighbour = asyncio.create_task(speak_until(stop, url))
        try:
            yield url
        finally:
            stop.set()
            await neighbour
        await until(lambda: server.active_sessions == 0)
        await until(lambda: server.engine_status().active_requests == 0)
        await until(lambda: slots(model) == 0)


async def speak_until(stop: asyncio.Event, url: str) -> None:
    """Speaks the same utterance again and again, and a last time after `stop`; all audio must be exact."""
    async with base_client(url, **STREAM) as client:
        is_last = False
        while not is_last:
            is_last = stop.is_set()
            utterance = await client.speak(NEIGHBOUR_TEXT)
            assert len(utterance.texts) == 2
            assert utterance.audio == [spoken_pcm(text) for text in utterance.texts]
            await asyncio.sleep(0.01)
