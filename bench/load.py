"""Load test: concurrent listeners of one server, and the continuity of their playback.

Three modes:

  open       requests arrive at random times, --rate per second, independent of the server's speed; with --burst-size
             more at once.  Delays count from the intended start of a request, so a late start counts as a delay.
  closed     -c users, each requesting the next utterance as soon as the server has sent the last one.
  listeners  -c users who listen to the end of an utterance, then think for --think seconds on average.

The figures are those of the listener, with the one definition of underrun in realtime_tts/audio/playout.py; the
difference from the server's own figures is printed with them.  The load is bounded: requests stop after --duration, and
those that are not done --drain seconds later are interrupted.  Ctrl-C ends the test at once and prints the results.
"""

import argparse
import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from bench import options, outputs, results, trace
from bench.listeners import Load, LoadPlan, served_model
from bench.loopback import require_loopback
from bench.options import positive
from bench.results import Run
from bench.summary import Outcome, Status, Summary, ms
from bench.tables import run_text
from bench.texts import pick_text
from bench.trace import Arrival
from realtime_tts.client import ConnectionRefused
from realtime_tts.clock import MonotonicClock
from realtime_tts.errors import RealtimeTTSError


def plan_of(args: argparse.Namespace) -> LoadPlan:
    """The plan for the command line.  Raises ValueError if the trace to replay is invalid."""
    config = {"voice": args.voice, "sample_rate": args.sample_rate}
    connections = args.connections or ("user" if args.mode == "listeners" else "request")
    plan = LoadPlan(
        url=args.url,
        mode=args.mode,
        duration_s=args.duration,
        drain_s=args.drain,
        users=args.concurrency,
        think_s=args.think,
        sentences=args.sentences,
        seed=args.seed,
        stalled=args.stalled,
        keep_connections=connections == "user",
        config={name: value for name, value in config.items() if value is not None},
    )
    if args.trace_in is not None:
        arrivals = trace.loads(args.trace_in.read_text("utf-8"))
        return replace(plan, mode="open", arrivals=tuple(arrivals), duration_s=arrivals[-1].at_s if arrivals else 0.0)
    return replace(plan, arrivals=tuple(_arrivals(args))) if args.mode == "open" else plan


def _arrivals(args: argparse.Namespace) -> list[Arrival]:
    texts = partial(pick_text, sentences=args.sentences)
    arrivals = trace.poisson(args.rate, args.duration, Random(args.seed), texts)
    if args.burst_size:
        # A separate random state: the rest of the load is the same with and without bursts.
        rng = Random(f"{args.seed}/bursts")
        arrivals = trace.merged(arrivals, trace.bursts(args.burst_size, args.burst_every, args.duration, rng, texts))
    return arrivals


def notes(summary: Summary, outcomes: Sequence[Outcome]) -> list[str]:
    """The lines below the table."""
    ttfp, underrun, late = summary.ttfp_difference_s, summary.underrun_difference_s, summary.late_s
    lines = [
        f"audible TTFA p50/p95 {ms(summary.ttfa_s.p50)}/{ms(summary.ttfa_s.p95)} ms,"
        f" {summary.audio_s_per_s:.1f} s of audio per second",
        f"|client - server| p50/p99: TTFP {ms(ttfp.p50)}/{ms(ttfp.p99)} ms,"
        f" underrun {ms(underrun.p50)}/{ms(underrun.p99)} ms",
        f"text sent p50/p99 {ms(late.p50)}/{ms(late.p99)} ms after the intended start of the request",
    ]
    if summary.retry_after_s.p50 is not None:
        lines.append(f"refused: retry after {summary.retry_after_s.p50:g} s (median)")
    if summary.waiting:
        lines.append(f"{summary.waiting} without any audio at the end")
    reasons = Counter(outcome.reason for outcome in outcomes if outcome.status is Status.FAILED)
    lines += [f"failed, {count} times: {reason}" for reason, count in reasons.most_common(5)]
    return lines


async def measure(args: argparse.Namespace, plan: LoadPlan) -> tuple[Run, list[Arrival]]:
    """Carries out the plan; returns its results and its requests."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        model = await served_model(plan.url)
    except ConnectionRefused as refusal:
        if refusal.status != 503:
            raise
        model = "unknown: the server was full"
    load = Load(plan, MonotonicClock())
    outcomes = await load.run(stop, progress_line)
    conditions = results.conditions("bench.load") | {
        "server": plan.url,
        "model": model,
        "load": describe(plan),
        "ended": "early" if stop.is_set() else "as planned",
    }
    run = Run(
        args.label or describe(plan),
        tuple(outcomes),
        duration_s=plan.duration_s,
        warm_up_s=args.warm_up,
        threshold_s=args.threshold_ms / 1000,
        conditions=conditions,
    )
    return run, load.arrivals()


def describe(plan: LoadPlan) -> str:
    """A plan in a few words."""
    if plan.stalled:
        return f"{describe(replace(plan, stalled=0))}, {plan.stalled} stalled"
    if plan.mode == "open":
        return f"open, {len(plan.arrivals)} in {plan.duration_s:.0f} s"
    think = f", think {plan.think_s:g} s" if plan.mode == "listeners" else ""
    return f"{plan.mode}, c={plan.users}{think}"


def progress_line(line: str) -> None:
    """Overwrites the last line on a terminal; otherwise prints one line each."""
    print(
        f"\r{line}" if sys.stderr.isatty() else line,
        end="" if sys.stderr.isatty() else "\n",
        file=sys.stderr,
        flush=True,
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.make_parser(
        "bench.load",
        __doc__,
        epilog="""\
example, in two shells:
  realtime-tts serve --model tone --port 8100 --max-sessions 512
  python -m bench.load --url http://127.0.0.1:8100 --mode open --rate 12 --duration 60 --report load.html

the same load on another server or policy:
  python -m bench.load --rate 12 --trace load-trace.json;  python -m bench.load --trace-in load-trace.json

exit status: 0; 1 if --max-underrun-p95-ms is exceeded or no audio was received; 2 if there is no server.
""",
    )
    kind = parser.add_argument_group("the load")
    kind.add_argument("--url", default="http://127.0.0.1:8000", help="of the server")
    kind.add_argument("--mode", choices=("open", "closed", "listeners"), default="open", help="see above")
    kind.add_argument("--rate", type=positive, default=1.0, help="open: requests per second")
    kind.add_argument("--burst-size", type=int, default=0, help="open: additional simultaneous requests")
    kind.add_argument("--burst-every", type=positive, default=20.0, help="open: seconds between bursts")
    kind.add_argument("-c", "--concurrency", type=int, default=8, help="closed, listeners: users")
    kind.add_argument("--think", type=positive, default=5.0, help="listeners: mean pause in seconds")
    kind.add_argument("--sentences", type=int, default=1, help="sentences per request")
    kind.add_argument(
        "--connections",
        choices=("user", "request"),
        help="one per user, kept between requests, for users who listen to the end  [default of listeners], or a new "
        "one for each request  [default of the other modes]",
    )
    kind.add_argument("--stalled", type=int, default=0, help="additional clients that never read their audio")
    kind.add_argument("--voice", help="[default: the server's default]")
    kind.add_argument("--sample-rate", type=int, help="8000 to 48000 Hz  [default: the model's]")
    kind.add_argument("--seed", type=int, default=0, help="of the random texts and times")
    kind.add_argument("--trace-in", type=Path, help="replay this trace (format: bench/trace.py)")
    kind.add_argument("--allow-remote", action="store_true", help="allow a server on another machine")
    bounds = parser.add_argument_group("duration")
    bounds.add_argument("--duration", type=positive, default=60.0, help="seconds in which requests arrive")
    bounds.add_argument("--drain", type=float, default=30.0, help="seconds for the last requests to finish")
    bounds.add_argument("--warm-up", type=float, default=0.0, help="first seconds, not counted")
    group = parser.add_argument_group("output")
    group.add_argument("--label", help="name of this run in the table and the report")
    group.add_argument("--trace", type=Path, help="write the requests as a trace, for --trace-in")
    outputs.add_outputs(group)
    group.add_argument("--threshold-ms", type=float, default=100.0, help="longest gap that counts as continuous")
    group.add_argument("--max-underrun-p95-ms", type=float, help="fail if the 95th percentile exceeds this")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    try:
        require_loopback(args.url, allow_remote=args.allow_remote)
        plan = plan_of(args)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            run, arrivals = runner.run(measure(args, plan))
    except (RealtimeTTSError, OSError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    summary = run.summary()
    print(run_text([run]))
    print("\n".join(notes(summary, run.counted)))
    if args.trace:
        args.trace.write_text(trace.dumps(arrivals), encoding="utf-8")
    outputs.write_outputs(args, [run])
    return exit_status(summary, args.max_underrun_p95_ms)


def exit_status(summary: Summary, max_underrun_p95_ms: float | None) -> int:
    """1 if the limit is exceeded or no request completed."""
    if summary.completed == 0:
        return 1
    p95_s = summary.underrun_s.p95
    exceeded = max_underrun_p95_ms is not None and (p95_s is None or p95_s * 1000 > max_underrun_p95_ms)
    return 1 if exceeded else 0


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop if available: the test itself must not be the bottleneck."""
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop


if __name__ == "__main__":
    sys.exit(main())
