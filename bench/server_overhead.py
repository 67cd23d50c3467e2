"""How many streams does one core carry when the engine costs nothing?  What our server itself costs, and what it could.

    python -m bench.server_overhead
    python -m bench.server_overhead --formats pcm --rounds 1 --report overhead.html

Our whole server, but with sound that was made beforehand; a bare aiohttp WebSocket that sends the same packets; and the
same frames written by hand on asyncio streams, which is the limit.  Each is a process of its own on one core, in turn
within each round, with the same listeners on the other cores.  Every listener is sent 80 ms of sound every 80 ms, and
has nothing in reserve.

Two figures: processor time for a message, with as many listeners for each; and the most listeners of whom 99% wait no
longer than 100 ms in mid-speech.  Of Opus, ours encodes what the others only send: what that costs alone is printed.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import report, result_page, results
from bench.results import Bar, Bars, Line, Plot, Result, Table
from bench.server_overhead_listeners import OK_SHARE, THRESHOLD_S, Trial, own_cores, trial
from bench.server_overhead_servers import KINDS, chunks
from realtime_tts.audio.encoder import make_encoder
from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.engine.models import tone

OURS = "ours"
NAMES = {OURS: "ours", "aiohttp": "bare aiohttp", "raw": "by hand"}
GROWTH = 1.25
RESOLUTION = 1.05
"""How far apart what is carried and what is not may be in the end."""
FIRST_LOAD = 0.85
"""Share of the core that the first rung should take, by the processor time of the trial before."""
BUSY_CLIENT = 0.9
"""Share of a core above which it may be the listeners who were late."""
BUSY_MACHINE = 0.05
"""Share of the time in which the server was kept from its core: what it did not carry then says nothing of it."""
TRIES = 2

Measure = Callable[[int], Trial]


@dataclass(frozen=True, slots=True)
class Round:
    """One server in one round."""

    base: Trial
    """With as many streams as each of the others."""
    carried: Trial | None
    """The most that it carried."""
    above: Trial | None
    """The fewest that it did not; None where the search ended before."""
    trials: tuple[Trial, ...]

    @property
    def at_least(self) -> str:
        """Why it may carry more than was seen; empty where it does not."""
        if self.above is None:
            return "the search ended before it failed"
        if self.above.client_cpu > BUSY_CLIENT:
            return "the listeners were the bottleneck"
        return "the machine was busy" if self.above.server_waited > BUSY_MACHINE else ""


def search(measure: Measure, base: Trial, *, most: int, budget: int) -> Round:
    """At first what the processor time of `base` promises; then `rung` by rung, in at most `budget` trials."""
    trials = [base]
    carried, above = (base, None) if base.carried else (None, base)
    promised = min(most, max(1, int(base.streams * FIRST_LOAD / base.server_cpu))) if base.server_cpu else 0
    streams = promised if base.carried and promised > base.streams else rung(carried, above, most)
    while streams is not None and len(trials) <= budget:
        found = measure(streams)
        trials.append(found)
        if found.carried:
            carried = found
        else:
            above = found
        streams = rung(carried, above, most)
    return Round(base, carried, above, tuple(trials))


def rung(carried: Trial | None, above: Trial | None, most: int) -> int | None:
    """A quarter more or less until one number is carried and another is not; then the middle, until both are close."""
    if carried is None:
        assert above is not None, "what was tried was carried or not"
        return max(1, int(above.streams / GROWTH)) if above.streams > 1 else None
    if above is None:
        return min(most, math.ceil(carried.streams * GROWTH)) if carried.streams < most else None
    close = above.streams <= max(carried.streams * RESOLUTION, carried.streams + 1)
    return None if close else (carried.streams + above.streams) // 2


def patiently(measure: Measure) -> Measure:
    """What fails is tried again: once may be the machine's fault.  The same for every server."""

    def again(streams: int) -> Trial:
        found = measure(streams)
        for _ in range(TRIES - 1):
            if found.carried:
                break
            found = measure(streams)
        return found

    return again


def measured(args: argparse.Namespace, encoding: str, core: int | None) -> dict[str, list[Round]]:
    """Every server's rounds, in alternation."""
    rounds: dict[str, list[Round]] = {kind: [] for kind in args.kinds}
    for number in range(args.rounds):
        for kind in args.kinds:

            def measure(streams: int, kind: str = kind, number: int = number) -> Trial:
                found = trial(kind, encoding, streams, args.window, core)
                print(f"{encoding}, round {number + 1}: {told(found)}", file=sys.stderr, flush=True)
                return found

            rounds[kind].append(search(patiently(measure), measure(args.streams), most=args.most, budget=args.trials))
    return rounds


def told(found: Trial) -> str:
    """A trial in a line."""
    return (
        f"{NAMES[found.kind]:<12} {found.streams:5} streams, {found.failed} failed, {found.ok_share:6.1%} ok,"
        f" underrun p95 {found.underrun_p95_s * 1000:6.1f} ms, {found.messages_per_s:6.0f} messages a second,"
        f" {found.cpu_us_per_message:5.1f} µs each; server {found.server_cpu:.0%}, kept from its core"
        f" {found.server_waited:.0%}, listeners {found.client_cpu:.0%}"
    )


def encode_us(encoding: str) -> float:
    """Processor time for the encoder's part of one message, here and alone."""
    sound = chunks()
    encoder = make_encoder(AudioFormat(Encoding(encoding), tone.SAMPLE_RATE_HZ), tone.SAMPLE_RATE_HZ, streaming=True)
    began_s = time.process_time()
    messages = sum(len(encoder.encode(chunk)) for chunk in sound * 8)
    return (time.process_time() - began_s) / messages * 1e6


# -- What it found -----------------------------------------------------------------------------------------------------


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Median, and the range over the rounds where there were several."""
    low, middle, high = min(values), statistics.median(values), max(values)
    if len(values) == 1:
        return f"{middle:.{digits}f}"
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def streams_told(rounds: Sequence[Round]) -> str:
    carried = [0 if each.carried is None else each.carried.streams for each in rounds]
    return ("at least " if any(each.at_least for each in rounds) else "") + spread(carried, 0)


def by_processor_time(each: Round) -> float:
    """Streams that a whole core would carry at the busiest trial's cost: less sure, and not disturbed by others."""
    busiest = max(each.trials, key=lambda found: found.server_cpu)
    return busiest.streams / busiest.server_cpu if busiest.server_cpu else math.inf


def table_of(encoding: str, rounds: dict[str, list[Round]], streams: int) -> Table:
    columns = (
        "server",
        "streams carried",
        "by processor time",
        f"CPU at {streams}, µs a message",
        "CPU when full, µs a message",
        "loop lag p50, ms",
        "p99, ms",
        "memory, KiB a stream",
        "listeners' CPU",
    )
    rows = []
    for kind, each in rounds.items():
        full = [one.carried or one.base for one in each]
        memory = [one.rss_per_stream_bytes / 1024 for one in full if one.rss_per_stream_bytes is not None]
        rows.append(
            (
                NAMES[kind],
                streams_told(each),
                spread([by_processor_time(one) for one in each], 0),
                spread([one.base.cpu_us_per_message for one in each]),
                spread([one.cpu_us_per_message for one in full]),
                spread([one.lag_p50_s * 1000 for one in full]),
                spread([one.lag_p99_s * 1000 for one in full]),
                spread(memory) if memory else None,
                f"{max(one.client_cpu for one in full):.0%}",
            )
        )
    note = f"Lag, memory and the listeners' CPU are those with the most streams that were carried; {encoding}."
    return Table(f"{encoding.upper()}: {', '.join(NAMES[kind] for kind in rounds)}", columns, tuple(rows), note)


def ratios_of(encoding: str, rounds: dict[str, list[Round]]) -> Table | None:
    """Ours by each other's, of the same round; of streams only where both are known, and not "at least"."""
    ours = rounds.get(OURS, [])
    rows = []
    for kind, theirs in rounds.items():
        if kind == OURS or not ours:
            continue
        pairs = list(zip(ours, theirs, strict=True))
        cpu = [mine.base.cpu_us_per_message / other.base.cpu_us_per_message for mine, other in pairs]
        counts = [
            mine.carried.streams / other.carried.streams
            for mine, other in pairs
            if mine.carried and other.carried and not mine.at_least and not other.at_least
        ]
        rows.append((f"ours / {NAMES[kind]}", spread(cpu, 2), spread(counts, 2) if counts else None))
    columns = ("of the same round", "CPU a message", "streams carried")
    return Table(f"{encoding.upper()}: ratios, median (least to most)", columns, tuple(rows)) if rows else None


def bars_of(encoding: str, rounds: dict[str, list[Round]], streams: int) -> list[Bars]:
    cpu = {kind: [one.base.cpu_us_per_message for one in each] for kind, each in rounds.items()}
    at_least = "At least that many." if any(one.at_least for each in rounds.values() for one in each) else ""
    counts = {kind: [float(one.carried.streams) for one in each if one.carried] for kind, each in rounds.items()}

    def bars(values: dict[str, list[float]]) -> tuple[Bar, ...]:
        return tuple(
            Bar(NAMES[kind], statistics.median(each), min(each), max(each)) for kind, each in values.items() if each
        )

    return [
        Bars(f"{encoding.upper()}: processor time", "µs a message", bars(cpu), f"With {streams} streams each."),
        Bars(f"{encoding.upper()}: streams that one core carries", "streams", bars(counts), at_least),
    ]


def plot_of(encoding: str, rounds: dict[str, list[Round]]) -> Plot:
    def points(each: list[Round]) -> tuple[tuple[float, float], ...]:
        found = [one for each_round in each for one in each_round.trials]
        return tuple(sorted((one.streams, one.server_cpu * 100) for one in found))

    lines = tuple(Line(NAMES[kind], points(each)) for kind, each in rounds.items())
    return Plot(f"{encoding.upper()}: the core", "streams", "% of the core", lines, "Every trial of all rounds.")


def reported(args: argparse.Namespace, found: dict[str, dict[str, list[Round]]], pinned: bool) -> Result:
    tables: list[Table] = []
    bars: list[Bars] = []
    notes = [
        "Ours is the whole server but for its engine thread: its sound is there beforehand, and costs nothing.",
        f"A number is carried where underrun p95 is at most {THRESHOLD_S * 1000:g} ms and {OK_SHARE:.0%} wait no longer"
        " than that; who gets an error counts as one who waits for ever. What fails once is tried once more.",
    ]
    if not pinned:
        notes.append("Server and listeners shared their cores: there was one, or no way to choose.")
    for encoding, rounds in found.items():
        tables += [table_of(encoding, rounds, args.streams)]
        tables += [ratios] if (ratios := ratios_of(encoding, rounds)) else []
        bars += bars_of(encoding, rounds, args.streams)
        notes.append(f"{encoding}: encoding alone is {encode_us(encoding):.1f} µs of our processor time a message.")
        for kind, each in rounds.items():
            if reasons := sorted({one.at_least for one in each} - {""}):
                notes.append(f"{encoding}, {NAMES[kind]}: it may carry more: {' and '.join(reasons)}.")
    return Result(
        bench="bench.server_overhead",
        title="How many streams does one core carry?",
        headline="; ".join(
            f"{encoding}: {NAMES[kind]} {streams_told(rounds)}"
            for encoding, kinds in found.items()
            for kind, rounds in kinds.items()
        )
        + " streams",
        conditions=results.conditions("bench.server_overhead", args.given)
        | {
            "packets": "80 ms of sound at 24 kHz every 80 ms: 1 message of PCM, 4 of Opus",
            "its cores": "one for the server, the others for the listeners" if pinned else "shared",
            "a trial": f"{args.window:g} s, {args.rounds} rounds, in alternation",
        },
        tables=tuple(tables),
        bars=tuple(bars),
        plots=tuple(plot_of(encoding, rounds) for encoding, rounds in found.items()),
        notes=tuple(notes),
    )


# -- The command -------------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.server_overhead",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--formats", nargs="+", choices=("pcm", "opus"), default=["pcm", "opus"])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="which servers (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="in alternation (default: %(default)s)")
    parser.add_argument("--streams", type=int, default=128, help="for processor time a message (default: %(default)s)")
    parser.add_argument("--most", type=int, default=6000, help="streams that are tried (default: %(default)s)")
    parser.add_argument(
        "--trials", type=int, default=6, help="of one server's search in a round (default: %(default)s)"
    )
    parser.add_argument("--window", type=float, default=2.5, help="seconds that are measured (default: %(default)g)")
    parser.add_argument("--smoke", action="store_true", help="a few streams for a moment: whether it works at all")
    parser.add_argument("--json", type=Path, help="write the figures, with the conditions")
    parser.add_argument("--report", type=Path, help="write a page with plots: one HTML file that needs nothing else")
    args = parser.parse_args(arguments)
    args.given = sys.argv[1:] if arguments is None else arguments
    if min(args.rounds, args.streams, args.most) < 1 or args.trials < 0 or args.window <= 0:
        parser.error("--rounds, --streams, --most and --window must be positive")
    if args.smoke:
        args.formats, args.rounds, args.streams, args.trials, args.window = args.formats[:1], 1, 8, 0, 0.3
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    with own_cores() as core:
        found = {encoding: measured(args, encoding, core) for encoding in args.formats}
        result = reported(args, found, pinned=core is not None)
    print(result_page.as_text(result))
    if args.json:
        args.json.write_bytes(results.dumps(result))
    if args.report:
        args.report.write_text(report.page([result]), "utf-8")
    heard = all(one.base.messages_per_s for kinds in found.values() for rounds in kinds.values() for one in rounds)
    return 0 if heard else 1


if __name__ == "__main__":
    sys.exit(main())
