"""The asyncio shell around a session: one reader, one writer, a bounded queue between, and a watch on the clock."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from realtime_tts.clock import Clock
from realtime_tts.engine.api import EngineEvent, EngineHandle
from realtime_tts.errors import InternalError, RealtimeTTSError, SessionExpired, SlowClient
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.messages import encode
from realtime_tts.session.outputs import Close, EndStream, Send, Submit
from realtime_tts.session.session import Output, Session
from realtime_tts.session.utterance import SendAudio, SendSentenceDone, SendUtteranceDone

log = logging.getLogger(__name__)

QueuedOutput = Send | SendAudio | SendSentenceDone | SendUtteranceDone | Close


class Transport(Protocol):
    """A message socket.  Writes wait while the peer does not read; all raise `ConnectionError` once it is gone."""

    async def receive(self) -> str | bytes | None:
        """The next frame, or None when the peer has closed or is gone."""
        ...

    async def send_text(self, data: bytes) -> None:
        """`data` is UTF-8."""
        ...

    async def send_bytes(self, data: bytes) -> None: ...

    async def close(self, code: int, reason: str) -> None: ...

    def abort(self) -> None:
        """Drops the socket without a word: for peers who would not hear it."""
        ...


class Connection:
    """Serves one client until either side ends it.  Every way out frees what the session holds in the engine."""

    def __init__(
        self, transport: Transport, engine: EngineHandle, session: Session, clock: Clock, limits: SessionLimits
    ) -> None:
        self._transport = transport
        self._engine = engine
        self._session = session
        self._clock = clock
        self._limits = limits
        self._queue: deque[QueuedOutput] = deque()
        self._queued = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._writing_since_s: float | None = None

    async def run(self) -> None:
        reading, writing, watching = (
            asyncio.create_task(task) for task in (self._read(), self._write(), self._watch())
        )
        self._reading = reading
        tasks = (reading, writing, watching)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if reading.cancelled():  # by the writer, who says goodbye
                await asyncio.wait((writing,))
        finally:
            self._carry_out(self._session.abandon())
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, SlowClient):
                    log.info("session %s: %s", self._session.session_id, outcome)
                elif isinstance(outcome, Exception) and not isinstance(outcome, ConnectionError):
                    log.error("session %s has failed", self._session.session_id, exc_info=outcome)

    def end(self, error: RealtimeTTSError) -> None:
        """Ends the session from outside, such as by a server that stops."""
        if not self._session.closed:
            self._carry_out(self._session.fail(error))

    # -- The three tasks -----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Never waits for synthesis, so a close or a disconnect is seen at once.

        What comes in after the session's end is read and dropped, until the writer has said goodbye: a socket that is
        closed with something unread is reset, and what was sent before is lost with it.
        """
        while (data := await self._transport.receive()) is not None:
            self._decide(partial(self._session.receive, data))
            # Frames that are there already come without a wait: a flood of them would hold up all other sessions.
            await asyncio.sleep(0)

    async def _write(self) -> None:
        while True:
            while self._queue:
                output = self._queue.popleft()
                self._writing_since_s = self._clock.now_s()
                try:
                    await self._send(output)
                except ConnectionError:
                    raise
                except Exception:
                    self._fail()
                if isinstance(output, Close):
                    return
            self._writing_since_s = None
            self._queued.clear()
            await self._queued.wait()

    async def _watch(self) -> None:
        """Ends a session whose time is up, and one whose client takes nothing.

        A look now and then: a timer for each write would cost more than the write.
        """
        timeout_s = self._limits.write_timeout_s
        while (left_s := self._session.deadline_s - self._clock.now_s()) > 0:
            since_s = self._writing_since_s
            if since_s is not None and self._clock.now_s() - since_s >= timeout_s:
                self._transport.abort()
                raise SlowClient(f"nothing could be written for {timeout_s:g} s")
            await asyncio.sleep(min(left_s, timeout_s / 4))
        self.end(SessionExpired("the session's idle or life limit, told in `session.created`, has passed"))
        await asyncio.sleep(timeout_s)  # the writer says goodbye, unless nobody takes it
        self._transport.abort()

    # -- Carrying out --------------------------------------------------------------------------------------------------

    def _carry_out(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Submit):
                self._engine.submit(output.request, self._on_engine)
            elif isinstance(output, EndStream):
                self._engine.end_stream(output.stream_id)
            else:
                self._queue.append(output)
        if len(self._queue) > self._limits.max_queued_messages:
            self._queue.clear()
            self._transport.abort()  # ends the reader, and with it the session
            log.info("session %s: too much waits for a client who does not read", self._session.session_id)
        self._queued.set()

    def _on_engine(self, event: EngineEvent) -> None:
        self._decide(partial(self._session.on_engine, event))

    def _decide(self, decision: Callable[[float], list[Output]]) -> None:
        """Asks the session, and carries out its answer.  A bug of ours ends this session alone, and says so."""
        try:
            self._carry_out(decision(self._clock.now_s()))
        except Exception:
            self._fail()

    def _fail(self) -> None:
        """For use where an exception is caught that nobody meant to raise."""
        log.exception("session %s has failed", self._session.session_id)
        self.end(InternalError("something went wrong on the server"))

    async def _send(self, output: QueuedOutput) -> None:
        match output:
            case Send(message=message):
                await self._transport.send_text(encode(message))
            case SendAudio():
                await self._transport.send_bytes(output.data)
                routed = self._session.on_audio_sent(output, self._clock.now_s())
                self._engine.routed(routed.request_id, samples=routed.samples, playout_end_s=routed.playout_end_s)
            case SendSentenceDone(job=job):
                await self._transport.send_text(encode(job.done_message()))
                self._carry_out(self._session.on_sentence_sent())
            case SendUtteranceDone(utterance=utterance):
                await self._transport.send_text(encode(utterance.done_message()))
            case Close(code=code, reason=reason):
                # The goodbye waits for the peer's own, and two cannot read at once.
                assert self._reading is not None
                self._reading.cancel()
                await asyncio.wait((self._reading,))
                await self._transport.close(code, reason)
