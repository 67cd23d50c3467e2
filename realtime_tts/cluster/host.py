"""Replica host: an engine behind a WebSocket, for servers in other processes and on other machines."""

import asyncio
import hmac
import itertools
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from aiohttp import WSMsgType, web

from realtime_tts.cluster import wire
from realtime_tts.cluster.outbox import Outbox
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    Cancel,
    EndStream,
    EngineCommand,
    EngineEvent,
    EngineHandle,
    Extend,
    PlayoutEnd,
    Submit,
)
from realtime_tts.errors import CannotListen

log = logging.getLogger(__name__)

STATUS_INTERVAL_S = 0.25
HEARTBEAT_S = 10.0
"""Interval of pings: the connection of a machine that is gone ends after half of it more."""
UNREAD_TIMEOUT_S = 2.0
"""How long a server may read nothing: beyond it, its connection is closed and its listeners end here."""


class ReplicaHost:
    """Serves one engine to any number of servers, each with its own connection.

    A server that disconnects ends all of its streams.
    """

    def __init__(self, engine: EngineHandle, token: str, *, metrics_text: Callable[[], bytes] | None = None) -> None:
        """`token`: a server sends it as `Authorization: Bearer TOKEN`."""
        self._engine = engine
        self._token = token
        self._metrics_text = metrics_text
        self._numbers = itertools.count()
        self.app = web.Application()
        self.app.add_routes([web.get(wire.PATH, self._serve), web.get("/healthz", self._healthz)])
        if metrics_text is not None:
            self.app.add_routes([web.get("/metrics", self._metrics)])

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _metrics(self, _request: web.Request) -> web.Response:
        assert self._metrics_text is not None, "there is no route without it"
        return web.Response(body=self._metrics_text(), headers={"Content-Type": "text/plain; version=0.0.4"})

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if not hmac.compare_digest(request.headers.get("Authorization", "").encode(), f"Bearer {self._token}".encode()):
            log.warning("a connection from %s was refused: wrong token", request.remote)
            return web.Response(status=401)
        websocket = web.WebSocketResponse(max_msg_size=wire.MAX_MESSAGE_BYTES, compress=False, heartbeat=HEARTBEAT_S)
        await websocket.prepare(request)
        await _Connection(self._engine, websocket, request.remote or "?", next(self._numbers)).run()
        return websocket


class _Connection:
    """One server, and the streams that it has here.

    Its ids get a prefix: a server that connects again may use them again before its old connection has ended.
    """

    def __init__(self, engine: EngineHandle, websocket: web.WebSocketResponse, peer: str, number: int) -> None:
        self._engine = engine
        self._prefix = f"{number}:"
        self._websocket = websocket
        self._peer = peer
        self._streams: set[str] = set()
        self._outbox: Outbox[wire.Message] = Outbox()

    async def run(self) -> None:
        self._outbox.put(wire.Hello(wire.VERSION, self._engine.info))
        self._outbox.put(wire.Status(self._engine.status()))
        writing = asyncio.create_task(self._outbox.write(self._send))
        reporting = asyncio.create_task(self._report())
        reading = asyncio.create_task(self._read())
        try:
            # Whichever ends first ends the connection.
            await asyncio.wait((writing, reading), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writing, reporting, reading):
                task.cancel()
            await asyncio.gather(writing, reporting, reading, return_exceptions=True)
            for stream_id in self._streams:
                self._engine.send(EndStream(stream_id))
            await self._websocket.close()

    async def _read(self) -> None:
        async for message in self._websocket:
            if message.type is not WSMsgType.BINARY:
                log.warning("the connection of %s is closed: not a binary message", self._peer)
                return
            try:
                commands = wire.decode_commands(message.data)
            except wire.MalformedWire as error:
                log.warning("the connection of %s is closed: %s", self._peer, error)
                return
            for command in commands:
                self._apply(command)

    def _apply(self, command: EngineCommand) -> None:
        match command:
            case Submit(request=request):
                stream_id = self._prefix + request.stream_id
                self._streams.add(stream_id)
                renamed = replace(request, request_id=self._prefix + request.request_id, stream_id=stream_id)
                self._engine.send(Submit(renamed), self._put)
            case EndStream(stream_id=stream_id):
                self._streams.discard(self._prefix + stream_id)
                self._engine.send(EndStream(self._prefix + stream_id))
            case PlayoutEnd(stream_id=stream_id, lead_s=lead_s):
                self._engine.send(PlayoutEnd(self._prefix + stream_id, lead_s))
            case AudioSent(request_id=request_id, samples=samples, lead_s=lead_s):
                self._engine.send(AudioSent(self._prefix + request_id, samples, lead_s))
            case Extend() | Cancel():
                self._engine.send(replace(command, request_id=self._prefix + command.request_id))

    def _put(self, event: EngineEvent) -> None:
        request_id = event.request_id.removeprefix(self._prefix)
        if isinstance(event, AudioReady):
            self._outbox.put(AudioReady(request_id, event.samples))
        else:
            self._outbox.put(replace(event, request_id=request_id))

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(STATUS_INTERVAL_S)
            self._outbox.put(wire.Status(self._engine.status()))

    async def _send(self, data: bytes) -> None:
        try:
            async with asyncio.timeout(UNREAD_TIMEOUT_S):
                await self._websocket.send_bytes(data)
        except TimeoutError:
            log.warning("the connection of %s is closed: it reads nothing", self._peer)
            raise


@asynccontextmanager
async def listening(host: ReplicaHost, address: str, port: int) -> AsyncIterator[int]:
    """Serves until the end of the block; yields the port, which the system chooses where `port` is 0.

    Raises `CannotListen`.
    """
    runner = web.AppRunner(host.app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address, port)
        try:
            await site.start()
        except OSError as error:
            raise CannotListen(f"cannot listen on {address}, port {port}: {error.strerror or error}") from None
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
