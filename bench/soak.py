"""Soak test: mixed clients for a long time, against a server that is started for it; reports faults and leaks.

Each of --clients repeats behaviours chosen at random: whole texts, word by word, barge-ins, contexts, changes of the
configuration, invalid messages, stalled readers, resets, and speech over HTTP with and without a hang-up.  Every
received byte is compared with the test model `tone`, whose audio is known.

Meanwhile the memory, descriptors, threads and tasks of the server are recorded.  The exit status is 1 if a client found
a fault, if memory grew by more than 5% after the first two minutes, or if descriptors, threads, tasks, sessions or
requests are left when all clients have gone.  Memory is not judged in runs of less than 3 minutes.  Linux only.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import aiohttp
from websockets.exceptions import WebSocketException

from bench import options, outputs, results
from bench.listeners import Progress
from bench.results import Line, Plot, Result, Table
from bench.server_process import Command, NotStarted, free_port, running
from bench.soak_check import Fault, Refused
from bench.soak_clients import BEHAVIOURS
from bench.soak_resources import Sample, leaks, memory_growth, read_sample
from bench.tables import as_text
from realtime_tts.clock import MonotonicClock

TIMEOUT_S = 120.0
"""Of one behaviour."""
SAMPLE_EVERY_S = 1.0
PROGRESS_EVERY_S = 10.0
SETTLE_S = 30.0
"""The server's time to give everything back; it notices some clients only when it writes to them."""
REFUSED_WAIT_S = 0.5
MAX_FAULTS_SHOWN = 10


@dataclass
class Counts:
    finished: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    descriptions: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Soak:
    """A finished run."""

    counts: Counts
    before: Sample
    samples: tuple[Sample, ...]
    after: Sample

    @property
    def leaks(self) -> list[str]:
        return leaks(self.before, self.samples, self.after)

    @property
    def failed(self) -> bool:
        return bool(self.counts.faults.total() or self.leaks or not self.counts.finished.total())


async def behave(name: str, url: str, rng: Random, counts: Counts) -> None:
    """Runs a behaviour once, and counts how it ended."""
    behaviour, _weight = BEHAVIOURS[name]
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await behaviour(url, rng)
    except Refused:
        counts.refused[name] += 1
        await asyncio.sleep(REFUSED_WAIT_S)
    except (Fault, OSError, EOFError, WebSocketException, aiohttp.ClientError, ValueError, KeyError) as error:
        counts.faults[name] += 1
        counts.descriptions.append(f"{name}: {type(error).__name__}: {error}"[:400])
    else:
        counts.finished[name] += 1


async def client(number: int, url: str, seed: int, counts: Counts, stop: asyncio.Event) -> None:
    rng = Random(f"{seed}/{number}")
    weights = [weight for _behaviour, weight in BEHAVIOURS.values()]
    while not stop.is_set():
        (name,) = rng.choices(list(BEHAVIOURS), weights)
        await behave(name, url, rng, counts)


async def settled(pid: int, url: str, before: Sample | None, clock: MonotonicClock) -> Sample:
    """A sample of the idle server, as soon as nothing is left or `SETTLE_S` have passed."""
    end_s = clock.now_s() + SETTLE_S
    while True:
        sample = await asyncio.to_thread(read_sample, pid, url, clock.now_s())
        given_back = sample.is_idle if before is None else not leaks(before, (), sample)
        if given_back or clock.now_s() >= end_s:
            return sample
        await asyncio.sleep(SAMPLE_EVERY_S)


async def soak(pid: int, url: str, args: argparse.Namespace, stop: asyncio.Event, progress: Progress) -> Soak:
    clock, counts = MonotonicClock(), Counts()
    # Each once, so that what is loaded or opened at the first use is not taken for a leak.
    await asyncio.gather(*(behave(name, url, Random(name), counts) for name in BEHAVIOURS))
    await asyncio.sleep(SAMPLE_EVERY_S)
    before = await settled(pid, url, None, clock)
    start_s, duration_s = clock.now_s(), 60 * args.minutes
    clients = [asyncio.create_task(client(number, url, args.seed, counts, stop)) for number in range(args.clients)]
    samples: list[Sample] = []
    try:
        while not stop.is_set() and (at_s := clock.now_s() - start_s) < duration_s:
            samples.append(await asyncio.to_thread(read_sample, pid, url, at_s))
            if len(samples) % round(PROGRESS_EVERY_S / SAMPLE_EVERY_S) == 0:
                progress(progress_text(samples[-1], counts))
            await asyncio.wait(clients, timeout=SAMPLE_EVERY_S, return_when=asyncio.FIRST_EXCEPTION)
            for each in clients:
                if each.done():
                    each.result()  # a bug of the benchmark
    finally:
        stop.set()
        await asyncio.gather(*clients, return_exceptions=True)
    return Soak(counts, before, tuple(samples), await settled(pid, url, before, clock))


def progress_text(sample: Sample, counts: Counts) -> str:
    return (
        f"{sample.at_s:6.0f} s  done {counts.finished.total():6}  refused {counts.refused.total():4}"
        f"  faults {counts.faults.total():3}  memory {sample.memory_mb:6.1f} MB  descriptors {sample.descriptors:4}"
        f"  threads {sample.threads:3}  tasks {sample.tasks:4}"
    )


def result_of(run: Soak, conditions: dict[str, str]) -> Result:
    counts, growth = run.counts, memory_growth(run.samples)
    behaviours = tuple((name, counts.finished[name], counts.refused[name], counts.faults[name]) for name in BEHAVIOURS)
    resources = ("memory_mb", "descriptors", "threads", "tasks", "sessions", "requests")
    rows = []
    for name in resources:
        values = [_value(each, name) for each in run.samples] or [0.0]
        rows.append((name.replace("_mb", ", MB"), _value(run.before, name), max(values), _value(run.after, name)))
    minutes = run.samples[-1].at_s / 60 if run.samples else 0.0
    done, faults, verdict = counts.finished.total(), counts.faults.total(), "; ".join(run.leaks) or "nothing leaked"
    return Result(
        bench="bench.soak",
        title="Soak",
        headline=f"{done} rounds in {minutes:.1f} minutes, {faults} faults; {verdict}",
        conditions=conditions,
        tables=(
            Table("Behaviours", ("behaviour", "done", "refused", "faults"), behaviours),
            Table(
                "Resources of the server",
                ("resource", "before", "peak", "after"),
                tuple(rows),
                "before and after without clients",
            ),
        ),
        plots=(
            _plot("Memory of the server", "resident, MB", run.samples, ("memory_mb",)),
            _plot("Descriptors, threads and tasks", "number", run.samples, ("descriptors", "threads", "tasks")),
        ),
        notes=(
            "memory: too short to judge" if growth is None else f"memory after the warm-up: {growth:+.1%}",
            *run.counts.descriptions[:MAX_FAULTS_SHOWN],
        ),
    )


def _value(sample: Sample, name: str) -> float:
    values = {
        "memory_mb": sample.memory_mb,
        "descriptors": sample.descriptors,
        "threads": sample.threads,
        "tasks": sample.tasks,
        "sessions": sample.sessions,
        "requests": sample.requests,
    }
    return float(values[name])


def _plot(title: str, y: str, samples: Sequence[Sample], names: Sequence[str]) -> Plot:
    step = max(1, len(samples) // results.MAX_CUMULATIVE_POINTS)
    lines = (
        Line(name.removesuffix("_mb"), tuple((each.at_s / 60, _value(each, name)) for each in samples[::step]))
        for name in names
    )
    return Plot(title, "minutes", y, tuple(lines))


async def _run(args: argparse.Namespace) -> Soak:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    port = free_port()
    command = Command(
        (
            *(sys.executable, "-m", "realtime_tts", "serve", "--port", str(port), "--max-sessions", "1000"),
            *("--model", "tone", "--set", f"profile={args.profile}"),
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        async with running(command, port, log) as server:
            run = await soak(server.pid, f"http://127.0.0.1:{port}", args, stop, progress_line)
        run.counts.descriptions.extend(log_lines(log.read_text("utf-8", "replace")))
    return run


def log_lines(log: str) -> list[str]:
    """The server's warnings and errors."""
    return [f"the server's log: {line}" for line in log.splitlines() if "[error" in line or "[warning" in line]


def progress_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options.make_parser("bench.soak", __doc__)
    parser.add_argument("--minutes", type=options.positive, default=30.0)
    parser.add_argument("--clients", type=options.positive_int, default=40, help="at the same time")
    parser.add_argument("--profile", default="free", help="of tone; free makes the most work for the server")
    parser.add_argument("--seed", type=int, default=0)
    outputs.add_outputs(parser)
    args = parser.parse_args(arguments)
    if sys.platform != "linux":
        sys.stderr.write("Error: the resources of a process are read from /proc, which only Linux has\n")
        return 2
    try:
        run = asyncio.run(_run(args))
    except NotStarted as error:
        sys.stderr.write(f"Error: the server {error}\n")
        return 2
    conditions = results.conditions("bench.soak", arguments) | {
        "server": f"started by the benchmark, tone with profile {args.profile}",
        "load": f"{args.clients} clients, {args.minutes:g} minutes",
    }
    result = result_of(run, conditions)
    print(as_text(result))
    outputs.write_outputs(args, [result])
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
