"""Remote engine: an `EngineHandle` over one connection to a replica, which may be lost and come back."""

import asyncio
import logging
from dataclasses import replace

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from realtime_tts.cluster import wire
from realtime_tts.cluster.outbox import Outbox
from realtime_tts.engine.api import (
    EngineCommand,
    EngineEvent,
    EngineStatus,
    EventSink,
    FinishReason,
    ModelInfo,
    RequestFinished,
    Submit,
)
from realtime_tts.errors import EngineUnavailable

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 0.5
"""A silent replica does not answer a close either."""
RETRY_MIN_S = 0.1
RETRY_MAX_S = 5.0
LATE_S = 0.25
"""How much longer a silent replica is waited for, once: this process itself may have been late to read."""


class RemoteEngine:
    """Behaves as an engine of this process: when the connection is lost, every request ends as `EngineUnavailable`.

    It connects again until it is stopped.  A replica counts as lost when its connection ends, or when it sends nothing
    for `silent_s`: it reports its status several times as often.
    """

    def __init__(self, url: str, token: str, *, silent_s: float = 2.0) -> None:
        """`url`: such as http://10.0.0.5:9000"""
        self._url = "ws" + url.rstrip("/").removeprefix("http") + wire.PATH
        self._token = token
        self._silent_s = silent_s
        self._info: ModelInfo | None = None
        self._status = EngineStatus(ready=False, reason="not connected")
        self._sinks: dict[str, EventSink] = {}
        self._outbox: Outbox[EngineCommand] | None = None
        """While it is connected."""
        self._known = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @property
    def info(self) -> ModelInfo:
        assert self._info is not None, "wait for start() first"
        return self._info

    async def start(self) -> None:
        """Returns when the replica has described its model; may wait for ever."""
        self._running = asyncio.create_task(self._run())
        await self._known.wait()

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        self._lose("stopped")

    def status(self) -> EngineStatus:
        return self._status

    def send(self, command: EngineCommand, sink: EventSink | None = None) -> None:
        if isinstance(command, Submit):
            assert sink is not None, "a request's events need a sink"
            self._sinks[command.request.request_id] = sink
            if self._outbox is None:
                asyncio.get_running_loop().call_soon(self._finish_unsent, command.request.request_id)
        if self._outbox is not None:
            self._outbox.put(command)

    # -- The connection ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        retry_s = RETRY_MIN_S
        while True:
            try:
                connection = await connect(
                    self._url,
                    additional_headers={"Authorization": f"Bearer {self._token}"},
                    compression=None,
                    proxy=None,
                    open_timeout=CONNECT_TIMEOUT_S,
                    ping_interval=None,  # the replica's status shows that it still works
                    close_timeout=CLOSE_TIMEOUT_S,
                    max_size=wire.MAX_MESSAGE_BYTES,
                )
            except (InvalidHandshake, OSError, TimeoutError) as error:
                self._lose(f"not connected: {error or 'no answer'}")
            else:
                if await self._use(connection):
                    retry_s = RETRY_MIN_S
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_MAX_S)

    async def _use(self, connection: ClientConnection) -> bool:
        """One connection until it is lost.  Returns whether it was usable."""
        writing: asyncio.Task[None] | None = None
        was_usable, reason = False, "lost"
        try:
            messages = await self._next(connection)
            problem = self._problem(messages)
            if problem is not None:
                log.error("the replica at %s is not used: %s", self._url, problem)
                reason = problem
                return False
            self._outbox, was_usable = Outbox(), True
            writing = asyncio.create_task(self._outbox.write(connection.send))
            while True:
                self._deliver(messages)
                self._known.set()
                messages = await self._next(connection)
        except (TimeoutError, ConnectionClosed) as error:
            reason = "silent" if isinstance(error, TimeoutError) else "lost"
            log.warning("the replica at %s is lost: %s", self._url, reason)
        except wire.MalformedWire as error:
            reason = "it sends malformed data"
            log.error("the replica at %s is not used: %s", self._url, error)
        finally:
            self._lose(reason)
            if writing is not None:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
            await connection.close()
        return was_usable

    async def _next(self, connection: ClientConnection) -> list[wire.Message]:
        """Raises `TimeoutError` for a silent replica, `ConnectionClosed` for a lost one, and `MalformedWire`."""
        try:
            async with asyncio.timeout(self._silent_s):
                data = await connection.recv()
        except TimeoutError:
            async with asyncio.timeout(LATE_S):
                data = await connection.recv()
        if isinstance(data, str):
            raise wire.MalformedWire("a text message")
        return wire.decode_messages(data)

    def _problem(self, messages: list[wire.Message]) -> str | None:
        hello = messages[0] if messages else None
        if not isinstance(hello, wire.Hello):
            return "it sends no greeting"
        if hello.version != wire.VERSION:
            return f"its version is {hello.version}, this one is {wire.VERSION}"
        if self._info is not None and hello.info != self._info:
            return f"its model is {hello.info.name}, and is not the model that was there before"
        return None

    def _deliver(self, messages: list[wire.Message]) -> None:
        for message in messages:
            match message:
                case wire.Hello(info=info):
                    self._info = info
                case wire.Status(status=status):
                    self._status = status
                case RequestFinished():
                    self._pass_on(message, self._sinks.pop(message.request_id, None))
                case _:
                    self._pass_on(message, self._sinks.get(message.request_id))

    def _pass_on(self, event: EngineEvent, sink: EventSink | None) -> None:
        if sink is None:
            return
        try:
            sink(event)
        except Exception:
            # A bug in one sink: the events behind it belong to others.
            log.exception("the sink of request %s has failed", event.request_id)

    def _lose(self, reason: str) -> None:
        """Ends every request: the replica ends its side when the connection ends."""
        self._outbox = None
        self._status = replace(
            self._status, ready=False, reason=reason, active_requests=0, waiting_requests=0, queued_requests=0
        )
        for request_id in list(self._sinks):
            self._finish_unsent(request_id)

    def _finish_unsent(self, request_id: str) -> None:
        error = EngineUnavailable(f"the engine accepts no requests: {self._status.reason}")
        event = RequestFinished(request_id, FinishReason.ERROR, error=error)
        self._pass_on(event, self._sinks.pop(request_id, None))
