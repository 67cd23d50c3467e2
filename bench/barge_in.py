"""Barge-in under load: cancels speech at random moments, and checks that no more audio of it arrives.

Each of -c connections repeats this: a new context speaks, is cancelled after a random time, and the next context
starts at once.  Reported are: audio frames of a context after its `audio.cancelled` (there must be none); the time from
the cancel to `audio.cancelled`; and the time to first audio of the next context, compared with that of a new connection
to an idle server (for this comparison use -c 1).  `text_spoken` and `text_remaining` must add up to the text sent.

With --url it uses a running server; otherwise it starts one with the test model `tone`.  --cancels bounds the load.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random

import numpy as np

from bench import options, outputs, results
from bench.listeners import no_progress
from bench.loopback import require_loopback
from bench.results import Line, Plot, Result, Table, Value, cumulative
from bench.tables import as_text
from realtime_tts.cli.build import serving
from realtime_tts.client import Audio, ClientSession, connect
from realtime_tts.clock import MonotonicClock
from realtime_tts.config.schema import ModelSection, ServerConfig, ServerSection
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.frontends.native.messages import AudioCancelled, AudioStart, ServerError

TEXT = "This is what is being said when somebody speaks up. It has a second sentence, which few will hear. And a third."
TIMEOUT_S = 30.0
LATE_FRAMES_WAIT_S = 0.2
FRESH_CONNECTIONS = 20
"""Opened one after the other, for comparison."""


@dataclass
class Counts:
    cancels: int = 0
    late_frames: int = 0
    """Audio frames of a cancelled context after its `audio.cancelled`."""
    text_mismatches: int = 0
    """Cancels whose `text_spoken` and `text_remaining` do not add up to the text."""
    errors: list[str] = field(default_factory=list)
    cancel_s: list[float] = field(default_factory=list)
    """From the cancel to `audio.cancelled`."""
    fresh_first_audio_s: list[float] = field(default_factory=list)
    """From the text to the first audio, on a new connection."""
    next_first_audio_s: list[float] = field(default_factory=list)
    """The same, right after a barge-in."""

    @property
    def failed(self) -> bool:
        return bool(self.late_frames or self.text_mismatches or self.errors or not self.cancels)


class BargeInClient:
    """One connection.  It checks every frame, also those of contexts that ended long ago."""

    def __init__(self, session: ClientSession, counts: Counts, name: int) -> None:
        self._session = session
        self._counts = counts
        self._name = name
        self._clock = MonotonicClock()
        self._cancelled_contexts: set[str | None] = set()
        self._first_audio = asyncio.Event()
        self._cancelled = asyncio.Event()
        self._context: str | None = None

    async def receive(self) -> None:
        async for event in self._session:
            match event:
                case Audio(start=AudioStart(context_id=context_id)):
                    self._counts.late_frames += context_id in self._cancelled_contexts
                    if context_id == self._context:
                        self._first_audio.set()
                case AudioCancelled(context_id=context_id):
                    self._counts.text_mismatches += event.text_spoken + event.text_remaining != TEXT
                    self._cancelled_contexts.add(context_id)
                    if context_id == self._context:
                        self._cancelled.set()
                case ServerError():
                    self._counts.errors.append(f"{event.code}: {event.message}")

    async def speak_and_cancel(self, count: int, rng: Random) -> None:
        for number in range(count):
            self._context = f"{self._name}.{number}"
            self._first_audio.clear()
            self._cancelled.clear()
            sent_s = self._clock.now_s()
            await self._session.send_text(TEXT, self._context)
            await self._session.done(self._context)
            if rng.random() < 0.5:  # cancel during playback; otherwise at any stage, also before the first audio
                await self._wait(self._first_audio)
                if number:
                    self._counts.next_first_audio_s.append(self._clock.now_s() - sent_s)
            await asyncio.sleep(rng.expovariate(1 / 0.03))
            sent_s = self._clock.now_s()
            await self._session.cancel(self._context)
            await self._wait(self._cancelled)
            self._counts.cancel_s.append(self._clock.now_s() - sent_s)
            self._counts.cancels += 1

    async def _wait(self, event: asyncio.Event) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await event.wait()


async def measure(url: str, cancels: int, connections: int, seed: int = 0) -> Counts:
    counts = Counts()

    async def run_connection(name: int) -> None:
        rng = Random(seed * 1000 + name)
        async with connect(url, frame_header=True) as session:
            client = BargeInClient(session, counts, name)
            receiving = asyncio.create_task(client.receive())
            try:
                await client.speak_and_cancel(cancels // connections + (name < cancels % connections), rng)
                await asyncio.sleep(LATE_FRAMES_WAIT_S)
            except TimeoutError:
                counts.errors.append(f"connection {name}: no answer within {TIMEOUT_S:g} s")
            finally:
                receiving.cancel()
                await asyncio.gather(receiving, return_exceptions=True)

    for _ in range(FRESH_CONNECTIONS):
        await _speak_on_fresh_connection(url, counts)
    await asyncio.gather(*(run_connection(name) for name in range(connections)))
    return counts


async def _speak_on_fresh_connection(url: str, counts: Counts) -> None:
    clock = MonotonicClock()
    async with connect(url, frame_header=True) as session:
        sent_s = clock.now_s()
        await session.send_text(TEXT, "fresh")
        await session.done("fresh")
        async for event in session.utterance():
            if isinstance(event, Audio):
                counts.fresh_first_audio_s.append(clock.now_s() - sent_s)
                return


def result_of(counts: Counts, conditions: dict[str, str]) -> Result:
    latencies_s = {
        "cancel to audio.cancelled": counts.cancel_s,
        "text to first audio, new connection": counts.fresh_first_audio_s,
        "text to first audio, right after a barge-in": counts.next_first_audio_s,
    }
    latencies_ms = {name: [1000 * value for value in values] for name, values in latencies_s.items() if values}
    rows: list[tuple[Value, ...]] = [
        (name, len(values), *(float(np.percentile(values, q)) for q in (50, 99, 100)))
        for name, values in latencies_ms.items()
    ]
    violations = (
        ("frames of a cancelled context after its audio.cancelled", counts.late_frames),
        ("texts that do not add up", counts.text_mismatches),
        ("errors", len(counts.errors)),
    )
    return Result(
        bench="bench.barge_in",
        title="Barge-in",
        headline=f"{counts.cancels} barge-ins, {counts.late_frames} audio frames after a cancellation",
        conditions=conditions,
        tables=(
            Table(f"Violations in {counts.cancels} barge-ins", ("violation", "count"), violations),
            Table("Latency", ("from and to", "n", "p50, ms", "p99, ms", "max, ms"), tuple(rows)),
        ),
        plots=(
            Plot(
                "Latency, cumulative",
                "latency",
                "share of the barge-ins",
                tuple(Line(name, cumulative(values)) for name, values in latencies_ms.items()),
                logarithmic=True,
                milliseconds=True,
                percent=True,
            ),
        ),
        notes=tuple(counts.errors[:5]),
    )


async def _run(args: argparse.Namespace) -> Counts:
    async with AsyncExitStack() as stack:
        url = args.url
        if url is None:
            model = ModelSection(name=("tone",), options={"profile": args.profile})
            config = ServerConfig(server=ServerSection(port=0), model=model)
            url, _server = await stack.enter_async_context(serving(config, no_progress))
        return await measure(url, args.cancels, args.connections, args.seed)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options.make_parser("bench.barge_in", __doc__)
    parser.add_argument("--url", help="a running server  [default: starts one with tone]")
    parser.add_argument("--profile", default="h200", help="of tone, without --url")
    parser.add_argument("-n", "--cancels", type=options.positive_int, default=10_000, help="in total")
    parser.add_argument("-c", "--connections", type=options.positive_int, default=4, help="concurrent connections")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--allow-remote", action="store_true", help="allow a server on another machine")
    outputs.add_outputs(parser)
    args = parser.parse_args(arguments)
    try:
        if args.url:
            require_loopback(args.url, allow_remote=args.allow_remote)
        counts = asyncio.run(_run(args))
    except RealtimeTTSError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    conditions = results.conditions("bench.barge_in", arguments) | {
        "server": args.url or f"started by the benchmark, tone with profile {args.profile}",
        "load": f"{args.cancels} barge-ins on {args.connections} connections",
    }
    result = result_of(counts, conditions)
    print(as_text(result))
    outputs.write_outputs(args, [result])
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
