"""Lets listeners hear each server in turn: the same texts in every round, and who goes first changes.

All servers stay loaded, so that none is measured cold, and one at a time is driven; what the idle ones compute
meanwhile is measured too, and told.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.listeners import Stopwatch
from bench.peers.catalogue import Peer, Site
from bench.peers.feed import Feed
from bench.peers.process import NotStarted, Server, free_port, running
from bench.summary import Outcome
from bench.take import Take
from bench.texts import pick_text
from realtime_tts.clock import MonotonicClock

WARM_UP_TEXT = "Hello there. This is only to warm up, and nobody counts it."
WARM_UP_LIMIT_S = 60.0
PAUSE_S = 0.3
"""Between two servers, so that one has put its things away before the next is timed."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, order=True)
class Scenario:
    listeners: int
    """At once, each with one utterance."""
    tokens_per_s: float | None
    """How fast the text is written; None where all of it is there at once."""

    @property
    def name(self) -> str:
        text = "whole text" if self.tokens_per_s is None else f"{self.tokens_per_s:g} tokens/s"
        return f"{self.listeners} at once, {text}"


@dataclass(frozen=True, slots=True)
class Plan:
    scenarios: tuple[Scenario, ...]
    rounds: int
    first_round: int = 0
    """Of an earlier run's rounds, this one's are the next."""
    sentences: int = 2
    """Of each utterance."""
    limit_s: float = 60.0
    """Whoever has not heard the end by then is cut off, and counts as unfinished."""
    threads: int = 2
    cores: tuple[int, ...] = (0, 1)
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """One server in one scenario of one round."""

    round: int
    peer: str
    scenario: Scenario
    outcomes: tuple[Outcome, ...]
    """Of the listeners, in the same order for every server: they speak the same texts."""
    cpu_s: float | None
    """What the server computed for it."""
    idle_cpu_s: float | None
    """What all other servers computed meanwhile."""


def texts_of(plan: Plan, number: int, scenario: Scenario) -> list[str]:
    """One for each listener: the same for every server, others in every round and scenario."""
    rng = Random(f"{plan.seed}/{number}/{scenario.name}")
    return [pick_text(rng, plan.sentences) for _ in range(scenario.listeners)]


def turns(plan: Plan, peers: Sequence[Peer]) -> Iterator[tuple[int, Scenario, Peer]]:
    """Every server in every scenario of every round, and whoever began last time goes last."""
    for number in range(plan.first_round, plan.first_round + plan.rounds):
        for index, scenario in enumerate(plan.scenarios):
            first = (number + index) % max(1, len(peers))
            for peer in (*peers[first:], *peers[:first]):
                yield number, scenario, peer


class Contest:
    """Carries out a plan, once.  `cells` and `failures` hold what is known so far, also when it is broken off."""

    def __init__(self, plan: Plan, peers: Sequence[Peer], home: Path, tell: Tell) -> None:
        self.cells: list[Cell] = []
        self.failures: dict[str, str] = {}
        """Why a server could not take part, by its name."""
        self._plan = plan
        self._peers = peers
        self._home = home
        self._tell = tell

    async def run(self, logs: Path) -> None:
        """`logs` is a directory for what the servers say."""
        async with AsyncExitStack() as stack:
            started = await asyncio.gather(*(self._start(peer, stack, logs) for peer in self._peers))
            servers = {peer.name: server for peer, server in zip(self._peers, started, strict=True) if server}
            taking_part = [peer for peer in self._peers if peer.name in servers]
            for peer in taking_part:
                await listen(peer, servers[peer.name], [WARM_UP_TEXT], None, WARM_UP_LIMIT_S)
            for number, scenario, peer in turns(self._plan, taking_part):
                await asyncio.sleep(PAUSE_S)
                cell = await measured(self._plan, number, scenario, peer, servers)
                self.cells.append(cell)
                self._tell(f"round {number + 1}, {scenario.name}: {peer.name}, {told(cell)}")

    async def _start(self, peer: Peer, stack: AsyncExitStack, logs: Path) -> Server | None:
        site = Site(free_port(), self._plan.threads, peer.directory(self._home))
        server = running(peer.command(site), site.port, self._plan.cores, logs / f"{peer.name}.log")
        self._tell(f"starting {peer.name}")
        try:
            return await stack.enter_async_context(server)
        except (NotStarted, OSError) as error:
            self.failures[peer.name] = f"did not start: {error}"
            return None


async def measured(plan: Plan, number: int, scenario: Scenario, peer: Peer, servers: Mapping[str, Server]) -> Cell:
    before = {name: server.cpu_s() for name, server in servers.items()}
    texts = texts_of(plan, number, scenario)
    outcomes = await listen(peer, servers[peer.name], texts, scenario.tokens_per_s, plan.limit_s)
    spent = {name: _spent_s(before[name], server.cpu_s()) for name, server in servers.items()}
    idle = [value for name, value in spent.items() if name != peer.name and value is not None]
    idle_cpu_s = sum(idle) if spent[peer.name] is not None else None
    return Cell(number, peer.name, scenario, tuple(outcomes), spent[peer.name], idle_cpu_s)


def _spent_s(before_s: float | None, after_s: float | None) -> float | None:
    return None if before_s is None or after_s is None else after_s - before_s


async def listen(
    peer: Peer, server: Server, texts: Sequence[str], tokens_per_s: float | None, limit_s: float
) -> list[Outcome]:
    """All texts at the same moment, each to a listener of its own."""
    watch = Stopwatch(MonotonicClock())
    takes = [Take(text, watch.now_s()) for text in texts]
    hearings = [
        asyncio.create_task(
            peer.client.hear(server.port, Feed(take.text, take.intended_s, tokens_per_s), take, watch),
        )
        for take in takes
    ]
    _done, late = await asyncio.wait(hearings, timeout=limit_s)
    for hearing in late:
        hearing.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    for hearing in hearings:
        if hearing not in late:
            hearing.result()  # raises what went wrong in the test itself
    for take in takes:
        take.cut(watch.now_s())
    return [take.outcome() for take in takes]


def told(cell: Cell) -> str:
    statuses = [outcome.status.value for outcome in cell.outcomes]
    return ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
