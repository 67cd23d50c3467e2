"""A server under attack, and a neighbour on it who must notice nothing."""

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
async def server_with_neighbour(limits: SessionLimits | None = None, model: Model | None = None) -> AsyncIterator[str]:
    """A server with a neighbour, whose audio must stay exact throughout; afterwards nothing may be left."""
    model = model or tone.build()
    async with tone_server(model, ServerLimits(session=limits or SessionLimits())) as (url, server):
        over = asyncio.Event()
        neighbour = asyncio.create_task(speak_repeatedly_until(over, url))
        try:
            yield url
        finally:
            over.set()
            await neighbour
        await until(lambda: server.active_sessions == 0)
        await until(lambda: server.engine_status().active_requests == 0)
        await until(lambda: slots(model) == 0)


async def speak_repeatedly_until(over: asyncio.Event, url: str) -> None:
    async with base_client(url, **STREAM) as client:
        while True:
            last = over.is_set()  # so that one utterance lies wholly behind whatever happened
            utterance = await client.speak(NEIGHBOUR_TEXT)
            assert len(utterance.texts) == 2
            assert utterance.audio == [spoken_pcm(text) for text in utterance.texts]
            if last:
                return
            await asyncio.sleep(0.01)
