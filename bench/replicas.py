"""Replicas lost under listeners: what each listener hears when the process of its engine is killed.

A server with --replicas processes of the test model `tone` serves --listeners at once, of which each requests
--sentences.  A moment after all of them have audio, one process is killed (or stopped, with --signal STOP).  Reported
are, for the listeners of the lost replica and for the others: the gap that a listener would hear (the definition of
audio/playout.py), errors, and whether the audio is what an undisturbed engine makes, to the bit.
"""

import argparse
import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from bench import options, outputs, results
from bench.listeners import no_progress
from bench.results import Result, Table, Value
from bench.tables import as_text
from realtime_tts.audio.pcm import pcm_bytes
from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.cli.build import serving
from realtime_tts.client import Audio, connect
from realtime_tts.clock import MonotonicClock
from realtime_tts.cluster.router import ReplicatedEngine
from realtime_tts.config.schema import ClusterSection, ModelSection, ServerConfig, ServerSection
from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models import tone
from realtime_tts.frontends.native.messages import AudioStart, ServerError, SessionCreated
from realtime_tts.server.app import Server

SENTENCE = "This is sentence number {}, which is long enough that it is played for a few seconds."
BEGIN_TIMEOUT_S = 30.0
RECOVERY_TIMEOUT_S = 60.0
PCM_BYTES_PER_S = 48_000


@dataclass(slots=True)
class Listener:
    number: int
    errors: list[str] = field(default_factory=list)
    audio: bytearray = field(default_factory=bytearray)
    expected: bytearray = field(default_factory=bytearray)
    underrun_s: float = 0.0
    session_id: str = ""
    was_moved: bool = False
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self, url: str, sentences: int) -> None:
        clock = MonotonicClock()
        ledger = PlayoutLedger()
        async with connect(url) as session:
            text = " ".join(SENTENCE.format(f"{self.number} {each}") for each in range(sentences))
            await session.send_text(text)
            await session.done()
            async for event in session.utterance():
                if isinstance(event, Audio):
                    duration_s = len(event.data) / PCM_BYTES_PER_S
                    ledger.record(arrived_at_s=clock.now_s(), duration_s=duration_s)
                    self.audio += event.data
                    self.begun.set()
                elif isinstance(event, SessionCreated):
                    self.session_id = event.session_id
                elif isinstance(event, AudioStart):
                    request = SynthesisRequest("any", "any", event.sentence_text, tone.VOICES[0].name)
                    self.expected += pcm_bytes(tone.render(request))
                elif isinstance(event, ServerError):
                    self.errors.append(f"{event.code}: {event.message}")
        self.underrun_s = ledger.report().max_underrun_s


@dataclass(frozen=True, slots=True)
class Loss:
    moment_s: float
    """After all listeners had begun."""
    listeners: tuple[Listener, ...]
    recovered_s: float

    def of(self, *, moved: bool) -> list[Listener]:
        return [each for each in self.listeners if each.was_moved is moved]


async def lose_one(url: str, server: Server, args: argparse.Namespace, moment_s: float) -> Loss:
    listeners = tuple(Listener(number) for number in range(args.listeners))
    tasks = [asyncio.create_task(each.listen(url, args.sentences)) for each in listeners]
    async with asyncio.timeout(BEGIN_TIMEOUT_S):
        await asyncio.gather(*(each.begun.wait() for each in listeners))
    await asyncio.sleep(moment_s)
    lost = next(each for each in multiprocessing.active_children() if each.name == "replica-0")
    assert lost.pid is not None
    router = server.engines.default
    assert isinstance(router, ReplicatedEngine)
    streams = router.streams_of(lost.name)
    for listener in listeners:
        listener.was_moved = any(stream.startswith(listener.session_id) for stream in streams)
    clock = MonotonicClock()
    killed_s = clock.now_s()
    os.kill(lost.pid, getattr(signal, f"SIG{args.signal}"))
    await asyncio.gather(*tasks)
    await until_ready(server, args.replicas)
    return Loss(moment_s, listeners, clock.now_s() - killed_s)


async def until_ready(server: Server, replicas: int) -> None:
    async with asyncio.timeout(RECOVERY_TIMEOUT_S):
        while sum(each.ready for each in server.engine_status().replicas) < replicas:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def measure(args: argparse.Namespace) -> list[Loss]:
    model = ModelSection(name=("tone",), options={"profile": args.profile})
    config = ServerConfig(
        server=ServerSection(port=0), model=model, cluster=ClusterSection(replicas=args.replicas, silent_s=2.0)
    )
    chance, losses = Random(args.seed), []
    async with serving(config, no_progress) as (url, server):
        for number in range(args.losses):
            await until_ready(server, args.replicas)
            losses.append(await lose_one(url, server, args, chance.uniform(0.0, args.latest)))
            sys.stderr.write(f"  {number + 1} of {args.losses} replicas lost\n")
    return losses


def result_of(losses: Sequence[Loss], conditions: dict[str, str]) -> Result:
    rows: list[tuple[Value, ...]] = []
    for name, moved in (("of the lost replica", True), ("of the others", False)):
        of_kind = [each for loss in losses for each in loss.of(moved=moved)]
        gaps_ms = [1000 * each.underrun_s for each in of_kind] or [0.0]
        identical = sum(each.audio == each.expected for each in of_kind)
        figures = (float(np.percentile(gaps_ms, q)) for q in (50, 95, 100))
        rows.append((name, len(of_kind), *figures, sum(len(each.errors) for each in of_kind), identical))
    recovered_s = [loss.recovered_s for loss in losses]
    return Result(
        bench="bench.replicas",
        title="Lost replicas",
        headline=f"{len(losses)} replicas lost under {len(losses[0].listeners)} listeners",
        conditions=conditions,
        tables=(
            Table(
                "Gaps",
                ("listeners", "n", "p50, ms", "p95, ms", "max, ms", "errors", "identical audio"),
                tuple(rows),
            ),
        ),
        notes=(f"Until all replicas were ready again: {float(np.median(recovered_s)):.1f} s (median).",),
    )


def failed(losses: Sequence[Loss]) -> bool:
    return any(each.errors or each.audio != each.expected for loss in losses for each in loss.listeners)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options.make_parser("bench.replicas", __doc__)
    parser.add_argument("--replicas", type=options.positive_int, default=2)
    parser.add_argument("--profile", default="h200_stateful", help="of tone")
    parser.add_argument("-c", "--listeners", type=options.positive_int, default=20, help="at once")
    parser.add_argument("--sentences", type=options.positive_int, default=3, help="of each listener")
    parser.add_argument("-n", "--losses", type=options.positive_int, default=20, help="lost replicas")
    parser.add_argument("--latest", type=options.positive, default=3.0, help="seconds until a loss, at most")
    parser.add_argument("--signal", choices=("KILL", "STOP"), default="KILL", help="STOP: the process hangs")
    parser.add_argument("--seed", type=int, default=0)
    outputs.add_outputs(parser)
    args = parser.parse_args(arguments)
    losses = asyncio.run(measure(args))
    conditions = results.conditions("bench.replicas", arguments) | {
        "server": f"{args.replicas} replicas of tone, profile {args.profile}",
        "load": f"{args.listeners} listeners of {args.sentences} sentences, SIG{args.signal} within {args.latest:g} s",
    }
    result = result_of(losses, conditions)
    print(as_text(result))
    outputs.write_outputs(args, [result])
    return 1 if failed(losses) else 0


if __name__ == "__main__":
    sys.exit(main())
