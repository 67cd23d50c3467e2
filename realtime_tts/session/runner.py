"""The asyncio shell around a session: one reader, one writer, and a watch on the clock."""

import asyncio
import contextvars
import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from realtime_tts.clock import Clock
from realtime_tts.engine.api import EngineEvent, EngineHandle, Reference, Submit
from realtime_tts.errors import InternalError, InvalidConfig, RealtimeTTSError, SlowClient
from realtime_tts.session.dialogue import Outgoing, SendCancelled
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.messages import encode
from realtime_tts.session.observer import NoObserver, SessionObserver
from realtime_tts.session.outputs import Close, Command, FetchReference
from realtime_tts.session.session import Session
from realtime_tts.session.telling import message_of, sentence_done, utterance_done
from realtime_tts.session.utterance import SendAudio, SendSentenceDone, SendUtteranceDone

log = logging.getLogger(__name__)

GOODBYE_S = 2.0
"""For a client who takes nothing to begin to read again, and learn why the session ends."""

FetchesReference = Callable[[str], Awaitable[Reference]]
"""`ref_audio` to the recording that it means.  Raises a `RealtimeTTSError`."""


class Transport(Protocol):
    """A message socket.  Writes wait while the peer does not read; all raise `ConnectionError` once it is gone."""

    async def receive(self) -> str | bytes | None:
        """The next frame, or None when the peer has closed or is gone."""
        ...

    async def send_text(self, data: bytes) -> None:
        """`data` is UTF-8."""
        ...

    async def send_bytes(self, data: bytes) -> bool:
        """Says whether all of it went out at once, so that the peer may have it since before this returned."""
        ...

    async def close(self, code: int, reason: str) -> None: ...

    def abort(self) -> None:
        """Drops the socket without a word: for peers who would not hear it."""
        ...


async def no_references(_ref_audio: str) -> Reference:
    raise InvalidConfig("ref_audio: this server takes no recordings")


class Connection:
    """Serves one client until either side ends it.  Every way out frees what the session holds in the engine."""

    def __init__(
        self,
        transport: Transport,
        engine: EngineHandle,
        session: Session,
        clock: Clock,
        limits: SessionLimits,
        *,
        observer: SessionObserver | None = None,
        fetch_reference: FetchesReference = no_references,
    ) -> None:
        self._transport = transport
        self._engine = engine
        self._session = session
        self._clock = clock
        self._limits = limits
        self._observer = observer or NoObserver()
        self._fetch_reference = fetch_reference
        self._context = contextvars.copy_context()
        self._something_to_send = asyncio.Event()
        self._sooner = asyncio.Event()
        self._watched_until_s = clock.now_s()
        self._reading: asyncio.Task[None] | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._reads_until_s: float | None = None
        """While something is always waiting to be written: when a client who reads no slower than a listener hears
        will want more."""
        self._writing_since_s = 0.0
        """Since when the present write has been waiting, where one is."""

    async def run(self) -> None:
        reading, writing, watching = (
            asyncio.create_task(task) for task in (self._read(), self._write(), self._watch())
        )
        self._reading = reading
        tasks = [reading, writing, watching]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if reading.cancelled():  # by the writer, who says goodbye
                await asyncio.wait((writing,))
        finally:
            self._carry_out(self._session.abandon())
            if self._fetching is not None:
                tasks.append(self._fetching)
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception) and not isinstance(outcome, ConnectionError):
                    log.error("session %s has failed", self._session.session_id, exc_info=outcome)

    def end(self, error: RealtimeTTSError) -> None:
        """Ends the session from outside, such as by a server that stops."""
        if not self._session.closed:
            self._carry_out(self._session.fail(error))

    def expire(self, reason: str, deadline_s: float) -> None:
        """The session has `deadline_s` left: the client is told, what has begun is finished, then it closes."""
        self._carry_out(self._session.expire(reason, deadline_s))

    def abort(self) -> None:
        """Drops the socket of a client who does not answer; `run` then ends."""
        self._transport.abort()

    # -- The three tasks -----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Never waits for synthesis, so a close, a cancel or a disconnect is seen at once.

        What comes in after the session's end is read and dropped, until the writer has said goodbye: a socket that is
        closed with something unread is reset, and what was sent before is lost with it.
        """
        while (data := await self._transport.receive()) is not None:
            self._decide(partial(self._session.receive, data))
            if self._session.deadline_s < self._watched_until_s:
                self._sooner.set()
            # Frames that are there already come without a wait: a flood of them would hold up all other sessions.
            await asyncio.sleep(0)
            while self._session.backlogged:
                self._decide(self._session.work_off)
                await asyncio.sleep(0)

    async def _write(self) -> None:
        while True:
            while (output := self._session.next()) is not None:
                self._writing_since_s = self._clock.now_s()
                if self._reads_until_s is None:
                    self._reads_until_s = max(self._writing_since_s, self._session.heard_until_s or 0.0)
                try:
                    await self._send(output)
                except ConnectionError:
                    raise
                except Exception:
                    self._fail()
                if isinstance(output, Close):
                    return
            self._reads_until_s = None
            self._something_to_send.clear()
            await self._something_to_send.wait()

    async def _watch(self) -> None:
        """Does what is due by the clock, and ends a session whose client takes nothing.

        A look now and then: a timer for each write would cost more than the write.
        """
        timeout_s = self._limits.write_timeout_s
        while True:
            now_s = self._clock.now_s()
            due_s = math.inf if self._session.closed else self._session.deadline_s
            if self._behind_s(now_s) >= timeout_s:
                await self._give_up(timeout_s)
                return
            if now_s >= due_s:
                self._decide(self._session.on_time)
            else:
                self._observer.send_queue(self._session.unsent_s * 1000)
                await self._rest(min(due_s - now_s, timeout_s / 4))

    async def _give_up(self, timeout_s: float) -> None:
        if not self._session.closed:
            self._session.drop_unsent()
            self.end(SlowClient(f"for {timeout_s:g} s less was read than was there to be heard"))
            await asyncio.sleep(min(GOODBYE_S, timeout_s))
        log.info("session %s: the client does not read", self._session.session_id)
        self._transport.abort()

    def _behind_s(self, now_s: float) -> float:
        """For how long the client has read nothing, or less than a listener would have heard meanwhile."""
        if self._reads_until_s is None:
            return 0.0
        return now_s - min(self._reads_until_s, self._writing_since_s)

    async def _rest(self, seconds: float) -> None:
        self._watched_until_s = self._clock.now_s() + seconds
        self._sooner.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._sooner.wait()
        except TimeoutError:
            pass

    # -- Carrying out --------------------------------------------------------------------------------------------------

    def _carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case FetchReference(ref_audio=ref_audio):
                    self._fetching = asyncio.create_task(self._fetch(ref_audio))
                case Submit():
                    self._engine.send(command, self._on_engine)
                case _:
                    self._engine.send(command)
        if self._session.waiting > self._limits.max_queued_messages:
            self._session.drop_unsent()
            self._transport.abort()  # ends the reader, and with it the session
            log.info("session %s: too much waits for a client who does not read", self._session.session_id)
        self._something_to_send.set()

    def _on_engine(self, event: EngineEvent) -> None:
        # Events come from another thread: what the log knows of this session is the context that it was opened in.
        self._context.copy().run(self._decide, partial(self._session.on_engine, event))

    def _decide(self, decision: Callable[[float], list[Command]]) -> None:
        """Asks the session, and carries out its answer.  A bug of ours ends this session alone, and says so."""
        try:
            self._carry_out(decision(self._clock.now_s()))
        except Exception:
            self._fail()

    def _fail(self) -> None:
        """For use where an exception is caught that nobody meant to raise."""
        log.exception("session %s has failed", self._session.session_id)
        self.end(InternalError("something went wrong on the server"))

    async def _fetch(self, ref_audio: str) -> None:
        fetched: Reference | RealtimeTTSError
        try:
            fetched = await self._fetch_reference(ref_audio)
        except RealtimeTTSError as error:
            fetched = error
        except Exception:
            log.exception("session %s: a recording could not be fetched", self._session.session_id)
            fetched = InvalidConfig("ref_audio: the recording could not be fetched")
        self._decide(partial(self._session.on_reference, fetched))

    async def _send(self, output: Outgoing) -> None:
        match output:
            case SendAudio():
                given_s = self._clock.now_s()
                data = output.header + output.data if output.header else output.data
                # Who woke up for it may run before us: on busy cores we then learn 40 ms later that it has gone.
                sent_s = given_s if await self._transport.send_bytes(data) else self._clock.now_s()
                if self._reads_until_s is not None:
                    self._reads_until_s += output.duration_s
                self._carry_out(self._session.on_audio_sent(output, sent_s))
            case SendSentenceDone(job=job):
                done = sentence_done(job)
                await self._transport.send_text(encode(done))
                self._carry_out(self._session.on_sentence_sent(job, self._clock.now_s()))
                self._observer.sentence_done(done)
            case SendUtteranceDone(utterance=utterance):
                ended = utterance_done(utterance)
                await self._transport.send_text(encode(ended))
                self._observer.utterance_done(ended, utterance.settings.continuity_threshold_s * 1000)
            case SendCancelled(cancellation=cancellation):
                await self._transport.send_text(encode(message_of(output, self._session.session_id)))
                latency_s = self._clock.now_s() - cancellation.asked_s
                self._observer.cancelled(latency_s, cancellation.audio_sent_s - cancellation.audio_played_s)
            case Close(code=code, reason=reason):
                # The goodbye waits for the peer's own, and two cannot read at once.
                assert self._reading is not None
                self._reading.cancel()
                await asyncio.wait((self._reading,))
                await self._transport.close(code, reason)
            case _:
                await self._transport.send_text(encode(message_of(output, self._session.session_id)))
