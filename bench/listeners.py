"""Many listeners at once on one server: carries out a `Plan`, and gives an `Outcome` for every request.

One asyncio process, apart from the server's.  `bench.load` is its command line.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bench import trace
from bench.summary import Outcome, Status
from bench.take import Take
from bench.texts import pick_text
from bench.trace import Arrival
from realtime_tts.client import Audio, ClientSession, ConnectionRefused, SessionEnded, connect
from realtime_tts.clock import Clock
from realtime_tts.frontends.native.messages import SessionCreated

RETRY_AFTER_S = 1.0
"""When a user who was refused, or failed, comes again, where the server does not say."""
PROGRESS_EVERY_S = 1.0
STALLED_TEXT = "This goes on and on, and nobody takes it from the socket. " * 500

Tell = Callable[[str], None]


def silently(_line: str) -> None:
    """For whoever wants no progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A load, whole: with the same plan, the same texts are asked for."""

    url: str
    mode: str = "open"
    """open, closed or listeners."""
    duration_s: float = 60.0
    drain_s: float = 30.0
    arrivals: tuple[Arrival, ...] = ()
    """Of an open load."""
    users: int = 64
    """Of the others."""
    think_s: float = 5.0
    sentences: int = 1
    seed: int = 0
    keep_connections: bool = False
    """Whether a user stays connected from one request to the next.

    To the server a connection is one listener, who still hears the utterance before: it may take its time with the
    next.  So this goes with users who do hear the end; the others would count that time as an underrun.
    """
    stalled: int = 0
    """So many more clients ask for a long text and never read a word of it: no one else may notice."""
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
    """One user's connection: opened when it is first needed, and again after it broke."""

    def __init__(self, plan: Plan, clock: Clock, *, keep: bool) -> None:
        self._plan = plan
        self._clock = clock
        self._keep = keep
        self._session: ClientSession | None = None
        self._connection = AsyncExitStack()
        self.heard_until_s = 0.0
        """When all that came over this connection has been heard."""

    async def hear(self, take: Take) -> None:
        """Speaks the take's text, and hears it to the end.  Whatever becomes of it is in the take."""
        try:
            session = await self._connected()
            take.on_sending(self._clock.now_s())
            await session.send_text(take.text)
            await session.done()
            async for event in session.utterance():
                if isinstance(event, Audio):
                    take.on_audio(event.data, event.start.sample_rate, self._clock.now_s())
                else:
                    take.on_message(event, self._clock.now_s())
        except ConnectionRefused as refusal:
            if refusal.status == 503:
                take.refuse(refusal.message, self._clock.now_s(), refusal.retry_after_s)
            else:
                take.fail(refusal.message, self._clock.now_s())
        except SessionEnded as end:
            take.on_closed(end.received_close_code, end.message, self._clock.now_s())
        finally:
            take.cut(self._clock.now_s())
            self.heard_until_s = take.heard_until_s
            if take.status is not Status.OK or not self._keep:
                await self.hang_up()

    async def hang_up(self) -> None:
        self._session = None
        await self._connection.aclose()

    async def _connected(self) -> ClientSession:
        if self._session is None:
            self._session = await self._connection.enter_async_context(connect(self._plan.url, **self._plan.config))
        return self._session


class Load:
    """Carries out a plan, once.  `takes` are all requests so far; their time starts when it is run."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self.takes: list[Take] = []
        self._plan = plan
        self._clock = clock
        self._watch = Stopwatch(clock)
        self._idle: list[Listener] = []
        self._by_session: dict[str, tuple[Listener, asyncio.Lock]] = {}

    async def run(self, stop: asyncio.Event | None = None, tell: Tell = silently) -> list[Outcome]:
        """What became of every request.  Ends by itself when the plan is done, and at once when `stop` is set."""
        self._watch = Stopwatch(self._clock)
        driving = asyncio.create_task(self._drive())
        stopping = asyncio.create_task((stop or asyncio.Event()).wait())
        progress = asyncio.create_task(self._report_progress(tell))
        stalled = [asyncio.create_task(self._stall()) for _ in range(self._plan.stalled)]
        try:
            await asyncio.wait(
                (driving, stopping),
                timeout=self._plan.duration_s + self._plan.drain_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for task in (driving, stopping, progress, *stalled):
                task.cancel()
            await asyncio.gather(*stalled, return_exceptions=True)
            with suppress(asyncio.CancelledError):
                await driving  # raises what went wrong in the test itself
            await asyncio.gather(*(listener.hang_up() for listener in self._listeners()))
        return [take.outcome() for take in self.takes]

    def arrivals(self) -> list[Arrival]:
        """What was asked for, as a trace."""
        taken = [Arrival(take.intended_s, take.text, take.session) for take in self.takes]
        return trace.merged(taken)

    # -- The three kinds -----------------------------------------------------------------------------------------------

    async def _drive(self) -> None:
        async with asyncio.TaskGroup() as group:
            if self._plan.mode == "open":
                for arrival in self._plan.arrivals:
                    await self._watch.sleep_until(arrival.at_s)
                    group.create_task(self._answer(arrival))
            else:
                user = self._impatient_user if self._plan.mode == "closed" else self._patient_user
                for number in range(self._plan.users):
                    group.create_task(self._user(number, user))

    async def _answer(self, arrival: Arrival) -> None:
        take = self._take(arrival.text, arrival.at_s, arrival.session)
        if arrival.session is None:
            listener = self._somebody_free()
            await listener.hear(take)
            if self._plan.keep_connections:
                self._idle.append(listener)
            return
        if arrival.session not in self._by_session:
            self._by_session[arrival.session] = (Listener(self._plan, self._watch, keep=True), asyncio.Lock())
        listener, turn = self._by_session[arrival.session]
        try:
            async with turn:
                await listener.hear(take)
        finally:
            take.cut(self._watch.now_s())  # where it was cut before its turn

    def _somebody_free(self) -> Listener:
        """Whoever has heard all of the last utterance, or else somebody new."""
        now_s = self._watch.now_s()
        free = next((one for one in self._idle if one.heard_until_s <= now_s), None)
        if free is None:
            return Listener(self._plan, self._watch, keep=self._plan.keep_connections)
        self._idle.remove(free)
        return free

    async def _user(self, number: int, behave: Callable[[Listener, Random, str | None], Awaitable[None]]) -> None:
        listener = Listener(self._plan, self._watch, keep=self._plan.keep_connections)
        try:
            await behave(
                listener, Random(f"{self._plan.seed}/{number}"), f"u{number}" if self._plan.keep_connections else None
            )
        finally:
            await listener.hang_up()

    async def _impatient_user(self, listener: Listener, rng: Random, name: str | None) -> None:
        while (now_s := self._watch.now_s()) < self._plan.duration_s:
            take = self._take(pick_text(rng, self._plan.sentences), now_s, name)
            await listener.hear(take)
            if take.status is not Status.OK:
                await self._come_again_after(take)

    async def _patient_user(self, listener: Listener, rng: Random, name: str | None) -> None:
        intended_s = rng.expovariate(1 / self._plan.think_s)
        while intended_s < self._plan.duration_s:
            await self._watch.sleep_until(intended_s)
            take = self._take(pick_text(rng, self._plan.sentences), intended_s, name)
            await listener.hear(take)
            await self._watch.sleep_until(min(take.heard_until_s, self._plan.duration_s))
            if take.status is not Status.OK:
                await self._come_again_after(take)
            intended_s = self._watch.now_s() + rng.expovariate(1 / self._plan.think_s)

    async def _stall(self) -> None:
        """Asks, and never reads: the library takes a few frames from the socket, then nothing."""
        async with connect(self._plan.url, **self._plan.config) as session:
            await session.send_text(STALLED_TEXT)
            await session.done()
            await asyncio.Event().wait()

    async def _come_again_after(self, take: Take) -> None:
        wait_s = RETRY_AFTER_S if take.retry_after_s is None else take.retry_after_s
        await self._watch.sleep_until(min(self._watch.now_s() + wait_s, self._plan.duration_s))

    # -- Keeping count -------------------------------------------------------------------------------------------------

    def _take(self, text: str, intended_s: float, session: str | None) -> Take:
        take = Take(text, intended_s, session)
        self.takes.append(take)
        return take

    def _listeners(self) -> list[Listener]:
        return self._idle + [listener for listener, _turn in self._by_session.values()]

    async def _report_progress(self, tell: Tell) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY_S)
            now_s = self._watch.now_s()
            statuses = Counter(take.status for take in self.takes)
            hearing = sum(take.heard_until_s > now_s for take in self.takes)
            tell(
                f"{now_s:5.0f} s  hearing speech {hearing:4}"
                f"  ok {statuses[Status.OK]:5}"
                f"  refused {statuses[Status.REFUSED]:5}  failed {statuses[Status.FAILED]:4}"
            )


async def ask_model(url: str) -> str:
    """The name of the model that is served.  Raises `ConnectionRefused` where there is no server, or it has no room."""
    async with connect(url) as session:
        async for event in session:
            if isinstance(event, SessionCreated):
                return event.model
    raise SessionEnded(None, "it never announced the session")
