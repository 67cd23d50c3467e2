"""Does a barge-in stop at once, and for good?  Cancels speech at random moments, and watches what still comes.

Each of -c connections holds turns one after the other: a new context speaks, is cancelled after a random while, and the
next one begins at once.  Told are: frames that came for a context after its `audio.cancelled` (there must be none), the
time from the cancel to `audio.cancelled`, and how soon the next context is heard, beside one on a fresh connection to
an idle server (so compare with -c 1).  `text_spoken` and `text_remaining` must make up the text that was sent.

With --url it speaks to a server that runs; else it starts one with the test model `tone`.  The load is bounded by
--cancels, and ends by itself.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np

from bench import plot, results
from bench.hosts import require_loopback
from bench.listeners import silently
from bench.results import Cell, Line, Plot, Result, Table
from realtime_tts.cli.build import serving
from realtime_tts.client import Audio, ClientSession, connect
from realtime_tts.clock import MonotonicClock
from realtime_tts.config.schema import ModelSection, ServerConfig, ServerSection
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.frontends.native.messages import AudioCancelled, AudioStart, ServerError

TEXT = "This is what is being said when somebody speaks up. It has a second sentence, which few will hear. And a third."
PATIENCE_S = 30.0
FRESH = 20
"""Connections that are opened one after the other, to compare with."""


@dataclass
class Tally:
    cancels: int = 0
    frames_after: int = 0
    torn_texts: int = 0
    errors: list[str] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    fresh_s: list[float] = field(default_factory=list)
    """From the text to the first sound, on a new connection."""
    next_s: list[float] = field(default_factory=list)
    """The same, right after a barge-in."""

    @property
    def broken(self) -> bool:
        return bool(self.frames_after or self.torn_texts or self.errors or not self.cancels)


class Talker:
    """One connection.  Every frame is looked at, also those of contexts that are long over."""

    def __init__(self, session: ClientSession, tally: Tally, name: int) -> None:
        self._session = session
        self._tally = tally
        self._name = name
        self._clock = MonotonicClock()
        self._over: set[str | None] = set()
        self._sound = asyncio.Event()
        self._cancelled = asyncio.Event()
        self._turn: str | None = None

    async def listen(self) -> None:
        async for event in self._session:
            match event:
                case Audio(start=AudioStart(context_id=context_id)):
                    self._tally.frames_after += context_id in self._over
                    if context_id == self._turn:
                        self._sound.set()
                case AudioCancelled(context_id=context_id):
                    self._tally.torn_texts += event.text_spoken + event.text_remaining != TEXT
                    self._over.add(context_id)
                    if context_id == self._turn:
                        self._cancelled.set()
                case ServerError():
                    self._tally.errors.append(f"{event.code}: {event.message}")

    async def turns(self, count: int, rng: Random) -> None:
        for number in range(count):
            self._turn = f"{self._name}.{number}"
            self._sound.clear()
            self._cancelled.clear()
            asked_s = self._clock.now_s()
            await self._session.send_text(TEXT, self._turn)
            await self._session.done(self._turn)
            if rng.random() < 0.5:  # while it is heard; else wherever it stands, also before its first sound
                await self._within(self._sound)
                if number:
                    self._tally.next_s.append(self._clock.now_s() - asked_s)
            await asyncio.sleep(rng.expovariate(1 / 0.03))
            asked_s = self._clock.now_s()
            await self._session.cancel(self._turn)
            await self._within(self._cancelled)
            self._tally.latency_s.append(self._clock.now_s() - asked_s)
            self._tally.cancels += 1

    async def _within(self, event: asyncio.Event) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await event.wait()


async def measure(url: str, cancels: int, connections: int, seed: int = 0) -> Tally:
    tally = Tally()

    async def hold(name: int) -> None:
        rng = Random(seed * 1000 + name)
        async with connect(url, frame_header=True) as session:
            talker = Talker(session, tally, name)
            listening = asyncio.create_task(talker.listen())
            try:
                await talker.turns(cancels // connections + (name < cancels % connections), rng)
                await asyncio.sleep(0.2)  # for what might still come
            except TimeoutError:
                tally.errors.append(f"connection {name}: no answer within {PATIENCE_S:g} s")
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    for _ in range(FRESH):
        await _fresh(url, tally)
    await asyncio.gather(*(hold(name) for name in range(connections)))
    return tally


async def _fresh(url: str, tally: Tally) -> None:
    """A listener who has just come, and finds nobody else here."""
    clock = MonotonicClock()
    async with connect(url, frame_header=True) as session:
        asked_s = clock.now_s()
        await session.send_text(TEXT, "fresh")
        await session.done("fresh")
        async for event in session.utterance():
            if isinstance(event, Audio):
                tally.fresh_s.append(clock.now_s() - asked_s)
                return


def latencies(tally: Tally) -> dict[str, list[float]]:
    return {
        "cancel to audio.cancelled": tally.latency_s,
        "text to first sound, fresh connection": tally.fresh_s,
        "text to first sound, right after a barge-in": tally.next_s,
    }


def told(tally: Tally) -> str:
    def row(name: str, seconds: list[float]) -> str:
        if not seconds:
            return f"{name:<44} none"
        p50, p99, most = (float(np.percentile(seconds, q)) * 1000 for q in (50, 99, 100))
        return f"{name:<44} p50 {p50:7.1f} ms   p99 {p99:7.1f} ms   max {most:7.1f} ms   (n={len(seconds)})"

    lines = [
        f"{tally.cancels} cancels; frames of a cancelled context after its audio.cancelled: {tally.frames_after}",
        f"texts that do not add up: {tally.torn_texts}; errors: {len(tally.errors)}",
        *(row(name, seconds) for name, seconds in latencies(tally).items()),
        *tally.errors[:5],
    ]
    return "\n".join(lines)


def reported(tally: Tally, conditions: dict[str, str]) -> Result:
    measured = {name: [1000 * value for value in seconds] for name, seconds in latencies(tally).items() if seconds}
    figures: list[tuple[Cell, ...]] = [
        (name, len(values), *(float(np.percentile(values, q)) for q in (50, 99, 100)))
        for name, values in measured.items()
    ]
    promises = (
        ("frames of a cancelled context after its audio.cancelled", tally.frames_after),
        ("texts that do not add up", tally.torn_texts),
        ("errors", len(tally.errors)),
    )
    return Result(
        bench="bench.barge_in",
        title="Does a barge-in stop at once, and for good?",
        headline=f"{tally.cancels} barge-ins: {tally.frames_after} frames came after the last word about them",
        conditions=conditions,
        tables=(
            Table(f"What was broken, in {tally.cancels} barge-ins", ("promise", "times"), promises),
            Table("How long it took", ("from and to", "n", "p50, ms", "p99, ms", "max, ms"), tuple(figures)),
        ),
        plots=(
            Plot(
                "How long it took, cumulative",
                "ms",
                "share of the barge-ins",
                tuple(Line(name, tuple(plot.cdf(values))) for name, values in measured.items()),
                logarithmic=True,
            ),
        ),
        notes=tuple(tally.errors[:5]),
    )


async def _run(args: argparse.Namespace) -> Tally:
    async with AsyncExitStack() as stack:
        url = args.url
        if url is None:
            model = ModelSection(name="tone", options={"profile": args.profile})
            config = ServerConfig(server=ServerSection(port=0), model=model)
            url, _server = await stack.enter_async_context(serving(config, silently))
        return await measure(url, args.cancels, args.connections, args.seed)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that runs  [default: one of its own, with tone]")
    parser.add_argument("--profile", default="h200", help="of tone, where it starts its own  [default: %(default)s]")
    parser.add_argument("-n", "--cancels", type=int, default=10_000, help="in all  [default: %(default)s]")
    parser.add_argument("-c", "--connections", type=int, default=4, help="[default: %(default)s]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures, with the conditions")
    parser.add_argument("--allow-remote", action="store_true", help="let the server be on another machine")
    args = parser.parse_args(arguments)
    if args.cancels < 1 or args.connections < 1:
        parser.error("--cancels and --connections must be at least 1")
    try:
        if args.url:
            require_loopback(args.url, allow_remote=args.allow_remote)
        tally = asyncio.run(_run(args))
    except RealtimeTTSError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    sys.stdout.write(told(tally) + "\n")
    if args.json:
        conditions = results.conditions("bench.barge_in", arguments)
        server = args.url or f"its own, tone as {args.profile}"
        about = {"server": server, "load": f"{args.cancels} barge-ins over {args.connections} connections"}
        args.json.write_bytes(results.dumps(reported(tally, conditions | about)))
    return 1 if tally.broken else 0


if __name__ == "__main__":
    sys.exit(main())
