"""Concurrent listeners of one server: they carry out a `LoadPlan`, and every request yields an `Outcome`.

One asyncio process, separate from the server's.  `bench.load` is its command line.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bench import trace
from bench.request_record import RequestRecord
from bench.summary import Outcome, Status
from bench.texts import pick_text
from bench.trace import Arrival
from realtime_tts.client import Audio, ClientSession, ConnectionRefused, SessionEnded, connect
from realtime_tts.clock import Clock
from realtime_tts.frontends.native.messages import SessionCreated

RETRY_AFTER_S = 1.0
"""When a refused or failed user retries, unless the server states a time."""
PROGRESS_EVERY_S = 1.0
STALLED_TEXT = "This text continues for a long time, and its client never reads any audio. " * 400

Progress = Callable[[str], None]


def no_progress(_line: str) -> None:
    """Ignores progress lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """A complete load: the same plan requests the same texts."""

    url: str
    mode: str = "open"
    """open, closed or listeners."""
    duration_s: float = 60.0
    drain_s: float = 30.0
    arrivals: tuple[Arrival, ...] = ()
    """Of an open load."""
    users: int = 64
    """Of the other modes."""
    think_s: float = 5.0
    sentences: int = 1
    seed: int = 0
    keep_connections: bool = False
    """Whether a user stays connected from one request to the next.

    For the server a connection is one listener who still plays the previous utterance, so the next one is less urgent.
    This fits users who wait for the end of playback; for all others it would count as an underrun.
    """
    stalled: int = 0
    """Additional clients that request a long text and never read any audio; they must not affect other listeners."""
    config: dict[str, Any] = field(default_factory=dict)
    """Fields of `session.config`."""


class Stopwatch:
    """A clock that starts at 0."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start_s = clock.now_s()

    def now_s(self) -> float:
        return self._clock.now_s() - self._start_s

    async def sleep_until(self, moment_s: float) -> None:
        await asyncio.sleep(max(0.0, moment_s - self.now_s()))


class Listener:
    """The connection of one user: opened for the first request, and again after a failure."""

    def __init__(self, plan: LoadPlan, clock: Clock, *, keep: bool) -> None:
        self._plan = plan
        self._clock = clock
        self._keep = keep
        self._session: ClientSession | None = None
        self._connection = AsyncExitStack()
        self.playback_end_s = 0.0
        """When playback of all audio of this connection ends."""

    async def request(self, record: RequestRecord) -> None:
        """Sends the record's text and receives all of its audio.  The record holds the result, also of a failure."""
        try:
            session = await self._connected()
            record.on_sending(self._clock.now_s())
            await session.send_text(record.text)
            await session.done()
            async for event in session.utterance():
                if isinstance(event, Audio):
                    record.on_audio(event.data, event.start.sample_rate, self._clock.now_s())
                else:
                    record.on_message(event, self._clock.now_s())
        except ConnectionRefused as refusal:
            if refusal.status == 503:
                record.refuse(refusal.message, self._clock.now_s(), refusal.retry_after_s)
            else:
                record.fail(refusal.message, self._clock.now_s())
        except SessionEnded as end:
            record.on_closed(end.received_close_code, end.message, self._clock.now_s())
        finally:
            record.interrupt(self._clock.now_s())
            self.playback_end_s = record.playback_end_s
            if record.status is not Status.OK or not self._keep:
                await self.disconnect()

    async def disconnect(self) -> None:
        self._session = None
        await self._connection.aclose()

    async def _connected(self) -> ClientSession:
        if self._session is None:
            self._session = await self._connection.enter_async_context(connect(self._plan.url, **self._plan.config))
        return self._session


class Load:
    """Carries out a plan, once.  `records` are all requests so far; their time starts with `run`."""

    def __init__(self, plan: LoadPlan, clock: Clock) -> None:
        self.records: list[RequestRecord] = []
        self._plan = plan
        self._clock = clock
        self._watch = Stopwatch(clock)
        self._idle: list[Listener] = []
        self._by_session: dict[str, tuple[Listener, asyncio.Lock]] = {}

    async def run(self, stop: asyncio.Event | None = None, progress: Progress = no_progress) -> list[Outcome]:
        """The outcome of every request.  Ends when the plan is done, or at once when `stop` is set."""
        self._watch = Stopwatch(self._clock)
        driving = asyncio.create_task(self._drive())
        stopping = asyncio.create_task((stop or asyncio.Event()).wait())
        reporting = asyncio.create_task(self._report_progress(progress))
        stalled = [asyncio.create_task(self._stall()) for _ in range(self._plan.stalled)]
        try:
            await asyncio.wait(
                (driving, stopping),
                timeout=self._plan.duration_s + self._plan.drain_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for task in (driving, stopping, reporting, *stalled):
                task.cancel()
            await asyncio.gather(*stalled, return_exceptions=True)
            with suppress(asyncio.CancelledError):
                await driving  # raises errors of the test itself
            await asyncio.gather(*(listener.disconnect() for listener in self._listeners()))
        return [record.outcome() for record in self.records]

    def arrivals(self) -> list[Arrival]:
        """The requests as a trace."""
        return trace.merged([Arrival(record.intended_s, record.text, record.session) for record in self.records])

    # -- Modes ---------------------------------------------------------------------------------------------------------

    async def _drive(self) -> None:
        async with asyncio.TaskGroup() as group:
            if self._plan.mode == "open":
                for arrival in self._plan.arrivals:
                    await self._watch.sleep_until(arrival.at_s)
                    group.create_task(self._serve_arrival(arrival))
            else:
                behaviour = self._closed_loop if self._plan.mode == "closed" else self._listen_and_think
                for number in range(self._plan.users):
                    group.create_task(self._user(number, behaviour))

    async def _serve_arrival(self, arrival: Arrival) -> None:
        record = self._new_record(arrival.text, arrival.at_s, arrival.session)
        if arrival.session is None:
            listener = self._free_listener()
            await listener.request(record)
            if self._plan.keep_connections:
                self._idle.append(listener)
            return
        if arrival.session not in self._by_session:
            self._by_session[arrival.session] = (Listener(self._plan, self._watch, keep=True), asyncio.Lock())
        listener, lock = self._by_session[arrival.session]
        try:
            async with lock:
                await listener.request(record)
        finally:
            record.interrupt(self._watch.now_s())  # if the test ends while it waits for the lock

    def _free_listener(self) -> Listener:
        """One whose playback has ended, or a new one."""
        now_s = self._watch.now_s()
        free = next((one for one in self._idle if one.playback_end_s <= now_s), None)
        if free is None:
            return Listener(self._plan, self._watch, keep=self._plan.keep_connections)
        self._idle.remove(free)
        return free

    async def _user(self, number: int, behaviour: Callable[[Listener, Random, str | None], Awaitable[None]]) -> None:
        listener = Listener(self._plan, self._watch, keep=self._plan.keep_connections)
        session = f"u{number}" if self._plan.keep_connections else None
        try:
            await behaviour(listener, Random(f"{self._plan.seed}/{number}"), session)
        finally:
            await listener.disconnect()

    async def _closed_loop(self, listener: Listener, rng: Random, session: str | None) -> None:
        while (now_s := self._watch.now_s()) < self._plan.duration_s:
            record = self._new_record(pick_text(rng, self._plan.sentences), now_s, session)
            await listener.request(record)
            if record.status is not Status.OK:
                await self._wait_for_retry(record)

    async def _listen_and_think(self, listener: Listener, rng: Random, session: str | None) -> None:
        intended_s = rng.expovariate(1 / self._plan.think_s)
        while intended_s < self._plan.duration_s:
            await self._watch.sleep_until(intended_s)
            record = self._new_record(pick_text(rng, self._plan.sentences), intended_s, session)
            await listener.request(record)
            await self._watch.sleep_until(min(record.playback_end_s, self._plan.duration_s))
            if record.status is not Status.OK:
                await self._wait_for_retry(record)
            intended_s = self._watch.now_s() + rng.expovariate(1 / self._plan.think_s)

    async def _stall(self) -> None:
        """Requests speech and never reads it: the library takes a few frames from the socket, then nothing."""
        async with connect(self._plan.url, **self._plan.config) as session:
            await session.send_text(STALLED_TEXT)
            await session.done()
            await asyncio.Event().wait()

    async def _wait_for_retry(self, record: RequestRecord) -> None:
        wait_s = RETRY_AFTER_S if record.retry_after_s is None else record.retry_after_s
        await self._watch.sleep_until(min(self._watch.now_s() + wait_s, self._plan.duration_s))

    # -- Records -------------------------------------------------------------------------------------------------------

    def _new_record(self, text: str, intended_s: float, session: str | None) -> RequestRecord:
        record = RequestRecord(text, intended_s, session)
        self.records.append(record)
        return record

    def _listeners(self) -> list[Listener]:
        return self._idle + [listener for listener, _lock in self._by_session.values()]

    async def _report_progress(self, progress: Progress) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY_S)
            now_s = self._watch.now_s()
            statuses = Counter(record.status for record in self.records)
            playing = sum(record.playback_end_s > now_s for record in self.records)
            progress(
                f"{now_s:5.0f} s  playing {playing:4}"
                f"  ok {statuses[Status.OK]:5}"
                f"  refused {statuses[Status.REFUSED]:5}  failed {statuses[Status.FAILED]:4}"
            )


async def served_model(url: str) -> str:
    """The name of the model.  Raises `ConnectionRefused` if there is no server or it has no capacity."""
    async with connect(url) as session:
        async for event in session:
            if isinstance(event, SessionCreated):
                return event.model
    raise SessionEnded(None, "the session was not announced")
