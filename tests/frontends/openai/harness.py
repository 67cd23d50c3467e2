"""A real server with the tone model, for tests of the HTTP API."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import openai

from realtime_tts.engine.api import EngineHandle
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model, StageInput
from realtime_tts.frontends.openai.api import HttpLimits
from realtime_tts.server.app import Server, ServerLimits, ServerOptions
from realtime_tts.voices.references import References
from realtime_tts.voices.store import VoiceStore
from tests.fakes import slots, until, wrapped
from tests.serving import tone_server


class Served:
    """A running server, with a client."""

    def __init__(self, url: str, server: Server, model: Model, http: aiohttp.ClientSession) -> None:
        self.url = url
        self.server = server
        self.http = http
        self._model = model

    def openai(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

    async def ask(self, **fields: object) -> tuple[int, Any, bytes]:
        """Status, headers and body of a request for speech."""
        async with self.http.post(f"{self.url}/v1/audio/speech", json=fields) as response:
            return response.status, response.headers, await response.read()

    async def refused(self, **fields: object) -> tuple[int, dict[str, Any]]:
        """Status and error of one that fails."""
        status, _headers, body = await self.ask(**fields)
        return status, json.loads(body)["error"]

    async def get(self, path: str) -> Any:
        async with self.http.get(self.url + path) as response:
            assert response.status == 200, await response.read()
            return await response.json()

    async def idle(self) -> None:
        """Waits until nothing of any request is left."""
        await until(lambda: self.server.active_sessions == 0 and self.server.engine_status().active_requests == 0)
        await until(lambda: slots(self._model) == 0)


@asynccontextmanager
async def serving(
    model: Model | None = None,
    *,
    before: Callable[[Sequence[StageInput]], None] | None = None,
    config: EngineConfig | None = None,
    limits: HttpLimits | None = None,
    max_sessions: int = 512,
    store: VoiceStore | None = None,
    aliases: dict[str, str] | None = None,
    other_engines: Mapping[str, EngineHandle] | None = None,
) -> AsyncIterator[Served]:
    """`before` is called with each batch of the Talker."""
    model = model or tone.build()
    if aliases is not None:
        model = replace(model, info=replace(model.info, voice_aliases=aliases))
    options = ServerOptions(
        http=limits or HttpLimits(),
        voices=store,
        fetch_reference=References(store),
    )
    async with (
        tone_server(
            model if before is None else wrapped(model, "talker", before),
            ServerLimits(max_sessions=max_sessions),
            config,
            options,
            other_engines=other_engines,
        ) as (url, server),
        aiohttp.ClientSession() as http,
    ):
        yield Served(url, server, model, http)
