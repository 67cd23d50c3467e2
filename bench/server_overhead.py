"""Streams per core of the server alone, with an engine that costs nothing, compared with minimal senders.

    python -m bench.server_overhead
    python -m bench.server_overhead --formats pcm --rounds 1 --report overhead.html

Three servers: ours, complete, but with audio that was made beforehand; a bare aiohttp WebSocket that sends the same
packets; and hand-written frames on asyncio streams, the upper limit.  Each is a process of its own on one core; they
alternate within each round, with the same listeners on the other cores.  Every listener receives 80 ms of audio every
80 ms, and has no buffer.

Two figures: CPU time per message, with the same number of listeners for each server; and the largest number of
listeners of whom 99% wait at most 100 ms in mid-speech.  Ours encodes Opus, which the others only send: the cost of
encoding alone is printed.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import options, outputs, results
from bench.results import Bar, Bars, Line, Plot, Result, Table
from bench.server_overhead_listeners import OK_SHARE, THRESHOLD_S, Trial, reserved_core, trial
from bench.server_overhead_servers import KINDS, chunks
from bench.tables import as_text, format_spread
from realtime_tts.audio.encoder import make_encoder
from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.engine.models import tone

OURS = "ours"
NAMES = {OURS: "ours", "aiohttp": "bare aiohttp", "raw": "hand-written frames"}
GROWTH = 1.25
RESOLUTION = 1.05
"""The search ends when the ratio of a sustained and an overloading number of streams is below this."""
FIRST_LOAD = 0.85
"""Share of the core for the first step of the search, estimated from the CPU time of the base trial."""
BUSY_CLIENT = 0.9
"""Share of a core above which the listeners themselves may be the bottleneck."""
BUSY_MACHINE = 0.05
"""Share of the time in which other processes used the server's core: above it, an overload says nothing."""
ATTEMPTS = 2

Measure = Callable[[int], Trial]


@dataclass(frozen=True, slots=True)
class Round:
    """The trials of one server in one round."""

    base: Trial
    """With the same number of streams for every server."""
    sustained: Trial | None
    """The largest number of streams that it sustained."""
    overloaded: Trial | None
    """The smallest number that it did not; None if the search ended before."""
    trials: tuple[Trial, ...]

    @property
    def at_least(self) -> str:
        """Why the real limit may be higher; empty if it is not."""
        if self.overloaded is None:
            return "the search ended before it failed"
        if self.overloaded.client_cpu > BUSY_CLIENT:
            return "the listeners were the bottleneck"
        return "the machine was busy" if self.overloaded.server_waited > BUSY_MACHINE else ""


def search(measure: Measure, base: Trial, *, max_streams: int, max_trials: int) -> Round:
    """Starts at the estimate from the CPU time of `base`, then goes `next_streams` by step."""
    trials = [base]
    sustained, overloaded = (base, None) if base.sustained else (None, base)
    estimate = min(max_streams, max(1, int(base.streams * FIRST_LOAD / base.server_cpu))) if base.server_cpu else 0
    streams = next_streams(sustained, overloaded, max_streams)
    if base.sustained and estimate > base.streams:
        streams = estimate
    while streams is not None and len(trials) <= max_trials:
        found = measure(streams)
        trials.append(found)
        if found.sustained:
            sustained = found
        else:
            overloaded = found
        streams = next_streams(sustained, overloaded, max_streams)
    return Round(base, sustained, overloaded, tuple(trials))


def next_streams(sustained: Trial | None, overloaded: Trial | None, max_streams: int) -> int | None:
    """In steps of a quarter until both are known, then by bisection; None when they are close enough."""
    if sustained is None:
        assert overloaded is not None, "a trial is either sustained or overloaded"
        return max(1, int(overloaded.streams / GROWTH)) if overloaded.streams > 1 else None
    if overloaded is None:
        return min(max_streams, math.ceil(sustained.streams * GROWTH)) if sustained.streams < max_streams else None
    close = overloaded.streams <= max(sustained.streams * RESOLUTION, sustained.streams + 1)
    return None if close else (sustained.streams + overloaded.streams) // 2


def with_retry(measure: Measure) -> Measure:
    """Repeats a trial that was not sustained: a single failure may be caused by the machine."""

    def retrying(streams: int) -> Trial:
        found = measure(streams)
        for _ in range(ATTEMPTS - 1):
            if found.sustained:
                break
            found = measure(streams)
        return found

    return retrying


def measure_all(args: argparse.Namespace, encoding: str, core: int | None) -> dict[str, list[Round]]:
    """The rounds of every server, in alternation."""
    rounds: dict[str, list[Round]] = {kind: [] for kind in args.kinds}
    for number in range(args.rounds):
        for kind in args.kinds:

            def measure(streams: int, kind: str = kind, number: int = number) -> Trial:
                found = trial(kind, encoding, streams, args.window, core)
                print(f"{encoding}, round {number + 1}: {describe(found)}", file=sys.stderr, flush=True)
                return found

            base = measure(args.streams)
            limits = {"max_streams": args.most, "max_trials": args.trials}
            rounds[kind].append(search(with_retry(measure), base, **limits))
    return rounds


def describe(found: Trial) -> str:
    """One trial in one line."""
    return (
        f"{NAMES[found.kind]:<19} {found.streams:5} streams, {found.failed} failed, {found.ok_share:6.1%} ok,"
        f" underrun p95 {found.underrun_p95_s * 1000:6.1f} ms, {found.messages_per_s:6.0f} messages per second,"
        f" {found.cpu_us_per_message:5.1f} µs each; CPU of the server {found.server_cpu:.0%}, waiting for its"
        f" core {found.server_waited:.0%}, listeners {found.client_cpu:.0%}"
    )


def encode_us(encoding: str) -> float:
    """CPU time of the encoder per message, measured alone in this process."""
    audio = chunks()
    encoder = make_encoder(AudioFormat(Encoding(encoding), tone.SAMPLE_RATE_HZ), tone.SAMPLE_RATE_HZ, streaming=True)
    start_s = time.process_time()
    messages = sum(len(encoder.encode(chunk)) for chunk in audio * 8)
    return (time.process_time() - start_s) / messages * 1e6


# -- Results -----------------------------------------------------------------------------------------------------------


def streams_text(rounds: Sequence[Round]) -> str:
    streams = [0 if each.sustained is None else each.sustained.streams for each in rounds]
    return ("at least " if any(each.at_least for each in rounds) else "") + format_spread(streams, 0)


def estimated_capacity(each: Round) -> float:
    """Streams of a fully used core at the cost of the busiest trial: less certain, but robust to other load."""
    busiest = max(each.trials, key=lambda found: found.server_cpu)
    return busiest.streams / busiest.server_cpu if busiest.server_cpu else math.inf


def table_of(encoding: str, rounds: dict[str, list[Round]], streams: int) -> Table:
    columns = (
        "server",
        "sustained streams",
        "estimated from CPU time",
        f"CPU at {streams} streams, µs per message",
        "CPU at the limit, µs per message",
        "loop lag p50, ms",
        "p99, ms",
        "memory, KiB per stream",
        "listeners' CPU",
    )
    rows = []
    for kind, each in rounds.items():
        full = [one.sustained or one.base for one in each]
        memory = [one.rss_per_stream_bytes / 1024 for one in full if one.rss_per_stream_bytes is not None]
        rows.append(
            (
                NAMES[kind],
                streams_text(each),
                format_spread([estimated_capacity(one) for one in each], 0),
                format_spread([one.base.cpu_us_per_message for one in each]),
                format_spread([one.cpu_us_per_message for one in full]),
                format_spread([one.lag_p50_s * 1000 for one in full]),
                format_spread([one.lag_p99_s * 1000 for one in full]),
                format_spread(memory) if memory else None,
                f"{max(one.client_cpu for one in full):.0%}",
            )
        )
    note = f"Lag, memory and the listeners' CPU are those at the largest sustained number of streams; {encoding}."
    return Table(f"{encoding.upper()}: {', '.join(NAMES[kind] for kind in rounds)}", columns, tuple(rows), note)


def ratios_of(encoding: str, rounds: dict[str, list[Round]]) -> Table | None:
    """Ours divided by each other server's, in the same round; for streams only if both limits are known exactly."""
    ours = rounds.get(OURS, [])
    rows = []
    for kind, theirs in rounds.items():
        if kind == OURS or not ours:
            continue
        pairs = list(zip(ours, theirs, strict=True))
        cpu = [mine.base.cpu_us_per_message / other.base.cpu_us_per_message for mine, other in pairs]
        counts = [
            mine.sustained.streams / other.sustained.streams
            for mine, other in pairs
            if mine.sustained and other.sustained and not mine.at_least and not other.at_least
        ]
        rows.append((f"ours / {NAMES[kind]}", format_spread(cpu, 2), format_spread(counts, 2) if counts else None))
    columns = ("in the same round", "CPU per message", "sustained streams")
    return Table(f"{encoding.upper()}: ratios, median (range)", columns, tuple(rows)) if rows else None


def bars_of(encoding: str, rounds: dict[str, list[Round]], streams: int) -> list[Bars]:
    cpu = {kind: [one.base.cpu_us_per_message for one in each] for kind, each in rounds.items()}
    at_least = "Lower bounds." if any(one.at_least for each in rounds.values() for one in each) else ""
    counts = {kind: [float(one.sustained.streams) for one in each if one.sustained] for kind, each in rounds.items()}

    def bars(values: dict[str, list[float]]) -> tuple[Bar, ...]:
        return tuple(
            Bar(NAMES[kind], statistics.median(each), min(each), max(each)) for kind, each in values.items() if each
        )

    return [
        Bars(f"{encoding.upper()}: CPU time", "µs per message", bars(cpu), f"With {streams} streams each."),
        Bars(f"{encoding.upper()}: sustained streams per core", "streams", bars(counts), at_least),
    ]


def plot_of(encoding: str, rounds: dict[str, list[Round]]) -> Plot:
    def points(each: list[Round]) -> tuple[tuple[float, float], ...]:
        found = [one for each_round in each for one in each_round.trials]
        return tuple(sorted((one.streams, one.server_cpu * 100) for one in found))

    lines = tuple(Line(NAMES[kind], points(each)) for kind, each in rounds.items())
    title, note = f"{encoding.upper()}: CPU time of the server", "Every trial of all rounds."
    return Plot(title, "streams", "% of the core", lines, note, markers=True)


def result_of(args: argparse.Namespace, found: dict[str, dict[str, list[Round]]], pinned: bool) -> Result:
    tables: list[Table] = []
    bars: list[Bars] = []
    notes = [
        "Ours is the complete server except for its engine thread: its audio was made beforehand and costs nothing.",
        f"A number of streams is sustained if underrun p95 is at most {THRESHOLD_S * 1000:g} ms and {OK_SHARE:.0%} wait"
        " at most that long; a listener with an error counts as an infinite wait. A failed trial is repeated once.",
    ]
    if not pinned:
        notes.append("Server and listeners shared their cores: there is only one, or the system cannot pin processes.")
    for encoding, rounds in found.items():
        tables += [table_of(encoding, rounds, args.streams)]
        tables += [ratios] if (ratios := ratios_of(encoding, rounds)) else []
        bars += bars_of(encoding, rounds, args.streams)
        notes.append(f"{encoding}: encoding alone is {encode_us(encoding):.1f} µs of our CPU time per message.")
        for kind, each in rounds.items():
            if reasons := sorted({one.at_least for one in each} - {""}):
                notes.append(f"{encoding}, {NAMES[kind]}: the real limit may be higher: {' and '.join(reasons)}.")
    return Result(
        bench="bench.server_overhead",
        title="Streams per core of the server alone",
        headline="; ".join(
            f"{encoding}: {NAMES[kind]} {streams_text(rounds)}"
            for encoding, kinds in found.items()
            for kind, rounds in kinds.items()
        )
        + " streams",
        conditions=results.conditions("bench.server_overhead", args.given)
        | {
            "packets": "80 ms of audio at 24 kHz every 80 ms: 1 message of PCM, 4 of Opus",
            "core assignment": "one for the server, the others for the listeners" if pinned else "shared",
            "trials": f"{args.window:g} s, {args.rounds} rounds, in alternation",
        },
        tables=tuple(tables),
        bars=tuple(bars),
        plots=tuple(plot_of(encoding, rounds) for encoding, rounds in found.items()),
        notes=tuple(notes),
    )


# -- Command line ------------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.make_parser("bench.server_overhead", __doc__)
    parser.add_argument("--formats", nargs="+", choices=("pcm", "opus"), default=["pcm", "opus"])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="which servers")
    parser.add_argument("--rounds", type=int, default=3, help="each with every server")
    parser.add_argument("--streams", type=int, default=128, help="of the trial for CPU time per message")
    parser.add_argument("--most", type=int, default=6000, help="upper limit of streams")
    parser.add_argument("--trials", type=int, default=6, help="of one server's search in a round")
    parser.add_argument("--window", type=float, default=2.5, help="measured seconds of a trial")
    parser.add_argument("--smoke", action="store_true", help="a short run that only checks whether it works")
    outputs.add_outputs(parser)
    args = parser.parse_args(arguments)
    args.given = arguments
    if min(args.rounds, args.streams, args.most) < 1 or args.trials < 0 or args.window <= 0:
        parser.error("--rounds, --streams, --most and --window must be positive")
    if args.smoke:
        args.formats, args.rounds, args.streams, args.trials, args.window = args.formats[:1], 1, 8, 0, 0.3
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    with reserved_core() as core:
        found = {encoding: measure_all(args, encoding, core) for encoding in args.formats}
        result = result_of(args, found, pinned=core is not None)
    print(as_text(result))
    outputs.write_outputs(args, [result])
    received = all(one.base.messages_per_s for kinds in found.values() for rounds in kinds.values() for one in rounds)
    return 0 if received else 1


if __name__ == "__main__":
    sys.exit(main())
