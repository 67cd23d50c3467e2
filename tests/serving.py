"""Servers on a free loopback port, and raw HTTP exchanges with them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from aiohttp import web

from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.answers import AnswerEngine
from realtime_tts.engine.api import EngineHandle
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model
from realtime_tts.engine.thinking.worker import ThinkerWorker
from realtime_tts.server.app import Server, ServerLimits, ServerOptions, listening


@asynccontextmanager
async def tone_server(
    model: Model | None = None,
    limits: ServerLimits | None = None,
    config: EngineConfig | None = None,
    options: ServerOptions | None = None,
    tls: ssl.SSLContext | None = None,
    add_routes: Callable[[web.Application], None] | None = None,
    other_engines: Mapping[str, EngineHandle] | None = None,
) -> AsyncIterator[tuple[str, Server]]:
    """The URL and the server.  `model` is the default model; `other_engines` are already started."""
    clock = MonotonicClock()
    engine = EngineThread(model or tone.build(), clock, config=config)
    engine.start()
    server = Server({engine.info.name: engine, **(other_engines or {})}, clock, limits, options)
    if add_routes is not None:
        add_routes(server.app)
    try:
        async with listening(server, "127.0.0.1", 0, tls=tls) as url:
            yield url, server
    finally:
        await engine.stop()


@asynccontextmanager
async def answering(model: Model | None = None, config: EngineConfig | None = None) -> AsyncIterator[AnswerEngine]:
    """A started engine that answers; `model` needs a Thinker."""
    model = model or tone.build(answers=True)
    assert model.answering is not None
    clock = MonotonicClock()
    speech = EngineThread(model, clock, config=config)
    speech.start()
    thinker = ThinkerWorker(model.answering.make_thinker, clock, model.info.frame_s)
    engine = AnswerEngine(thinker, speech, model.answering.chat, clock, config=config)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()
        await speech.stop()


@asynccontextmanager
async def answer_server(
    model: Model | None = None,
    config: EngineConfig | None = None,
    options: ServerOptions | None = None,
    limits: ServerLimits | None = None,
) -> AsyncIterator[tuple[str, Server, AnswerEngine]]:
    """The URL and the server of a model that answers, and its engine."""
    async with answering(model, config) as engine:
        server = Server({"tone": engine}, MonotonicClock(), limits, options)
        async with listening(server, "127.0.0.1", 0) as url:
            yield url, server, engine


async def bare_exchange(url: str, request: bytes) -> bytes:
    """The response to raw bytes, up to the end of the connection."""
    reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def first_response(url: str, request: bytes) -> bytes:
    """The response to raw bytes, up to the end of its body: the server may close the connection much later."""
    reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
    try:
        writer.write(request)
        async with asyncio.timeout(20):
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
            return head + await reader.readexactly(int(fields[b"content-length"]))
    finally:
        writer.close()


def status_of(answer: bytes) -> int:
    return int(answer.split()[1])
