"""Comparison of servers under the same load: the same texts for each, one server at a time, in changing order.

All servers stay loaded, so that none is measured cold.  The CPU time of the idle ones is measured too, and reported.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.listeners import Stopwatch
from bench.peers.catalogue import Peer, Site
from bench.peers.text_source import TextSource
from bench.request_record import RequestRecord
from bench.server_process import NotStarted, Server, free_port, running
from bench.summary import Outcome
from bench.texts import pick_text
from realtime_tts.clock import MonotonicClock

WARM_UP_TEXT = "Hello there. This is only to warm up, and nobody counts it."
WARM_UP_LIMIT_S = 60.0
PAUSE_S = 0.3
"""Between two servers, so that one has released its resources before the next is timed."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, order=True)
class Scenario:
    listeners: int
    """Concurrent listeners, each with one utterance."""
    tokens_per_s: float | None
    """The rate at which the text is written; None if it is complete at once."""

    @property
    def name(self) -> str:
        text = "whole text" if self.tokens_per_s is None else f"{self.tokens_per_s:g} tokens/s"
        return f"{self.listeners} at once, {text}"


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    scenarios: tuple[Scenario, ...]
    rounds: int
    first_round: int = 0
    """The number of the first round, after those of earlier runs."""
    sentences: int = 2
    """Per utterance."""
    limit_s: float = 60.0
    """Requests that take longer are interrupted and count as unfinished."""
    threads: int = 2
    cores: tuple[int, ...] = (0, 1)
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Measurement:
    """One server in one scenario of one round."""

    round: int
    peer: str
    scenario: Scenario
    outcomes: tuple[Outcome, ...]
    """Of the listeners, in the same order for every server: they use the same texts."""
    cpu_s: float | None
    """CPU time of the server."""
    idle_cpu_s: float | None
    """CPU time of all other servers during the measurement."""


def texts_of(plan: ComparisonPlan, number: int, scenario: Scenario) -> list[str]:
    """One for each listener: the same for every server, different in every round and scenario."""
    rng = Random(f"{plan.seed}/{number}/{scenario.name}")
    return [pick_text(rng, plan.sentences) for _ in range(scenario.listeners)]


def schedule(plan: ComparisonPlan, peers: Sequence[Peer]) -> Iterator[tuple[int, Scenario, Peer]]:
    """Every server in every scenario of every round; the first server of one scenario is the last of the next."""
    for number in range(plan.first_round, plan.first_round + plan.rounds):
        for index, scenario in enumerate(plan.scenarios):
            first = (number + index) % max(1, len(peers))
            for peer in (*peers[first:], *peers[:first]):
                yield number, scenario, peer


class Comparison:
    """Carries out a plan, once.  `measurements` and `failures` are the results so far, also after an interruption."""

    def __init__(self, plan: ComparisonPlan, peers: Sequence[Peer], home: Path, progress: Progress) -> None:
        self.measurements: list[Measurement] = []
        self.failures: dict[str, str] = {}
        """The reason by the name of each server that did not start."""
        self._plan = plan
        self._peers = peers
        self._home = home
        self._progress = progress

    async def run(self, logs: Path) -> None:
        """`logs` is a directory for the output of the servers."""
        async with AsyncExitStack() as stack:
            started = await asyncio.gather(*(self._start(peer, stack, logs) for peer in self._peers))
            servers = {peer.name: server for peer, server in zip(self._peers, started, strict=True) if server}
            running_peers = [peer for peer in self._peers if peer.name in servers]
            for peer in running_peers:
                await listen(peer, servers[peer.name], [WARM_UP_TEXT], None, WARM_UP_LIMIT_S)
            for number, scenario, peer in schedule(self._plan, running_peers):
                await asyncio.sleep(PAUSE_S)
                measurement = await measure(self._plan, number, scenario, peer, servers)
                self.measurements.append(measurement)
                self._progress(f"round {number + 1}, {scenario.name}: {peer.name}, {describe(measurement)}")

    async def _start(self, peer: Peer, stack: AsyncExitStack, logs: Path) -> Server | None:
        site = Site(free_port(), self._plan.threads, peer.directory(self._home))
        server = running(peer.command(site), site.port, logs / f"{peer.name}.log", self._plan.cores)
        self._progress(f"starting {peer.name}")
        try:
            return await stack.enter_async_context(server)
        except (NotStarted, OSError) as error:
            self.failures[peer.name] = f"did not start: {error}"
            return None


async def measure(
    plan: ComparisonPlan, number: int, scenario: Scenario, peer: Peer, servers: Mapping[str, Server]
) -> Measurement:
    before = {name: server.cpu_s() for name, server in servers.items()}
    texts = texts_of(plan, number, scenario)
    outcomes = await listen(peer, servers[peer.name], texts, scenario.tokens_per_s, plan.limit_s)
    spent = {name: _difference_s(before[name], server.cpu_s()) for name, server in servers.items()}
    idle = [value for name, value in spent.items() if name != peer.name and value is not None]
    idle_cpu_s = sum(idle) if spent[peer.name] is not None else None
    return Measurement(number, peer.name, scenario, tuple(outcomes), spent[peer.name], idle_cpu_s)


def _difference_s(before_s: float | None, after_s: float | None) -> float | None:
    return None if before_s is None or after_s is None else after_s - before_s


async def listen(
    peer: Peer, server: Server, texts: Sequence[str], tokens_per_s: float | None, limit_s: float
) -> list[Outcome]:
    """All texts at the same time, each with its own listener."""
    watch = Stopwatch(MonotonicClock())
    records = [RequestRecord(text, watch.now_s()) for text in texts]
    tasks = [
        asyncio.create_task(
            peer.client.request(server.port, TextSource(record.text, record.intended_s, tokens_per_s), record, watch)
        )
        for record in records
    ]
    _done, late = await asyncio.wait(tasks, timeout=limit_s)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    for task in tasks:
        if task not in late:
            task.result()  # raises errors of the test itself
    for record in records:
        record.interrupt(watch.now_s())
    return [record.outcome() for record in records]


def describe(measurement: Measurement) -> str:
    statuses = [outcome.status.value for outcome in measurement.outcomes]
    return ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
