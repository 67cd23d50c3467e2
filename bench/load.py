"""Does any listener run dry under load?  Speaks to a server as many listeners at once, and tells how they fared.

Three kinds of load:

  open       requests come at random times, --rate a second, whether or not the server keeps up; more at once with
             --burst-size.  Delays count from when a request was meant to come, so a late start is a late answer.
  closed     -c users, each asking for the next utterance as soon as the last one has been sent.
  listeners  -c users who first hear an utterance to its end, then think for --think seconds on average.

The figures are the listener's own, by the one definition of underrun in realtime_tts/audio/playout.py; how far the
server's differ is printed beside them.  The load is bounded: requests stop after --duration, and what is not done
--drain seconds later is cut.  Ctrl-C ends it at once, and prints what there is.
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

from bench import report, results, trace
from bench.hosts import require_loopback
from bench.listeners import Load as Load
from bench.listeners import Plan as Plan
from bench.listeners import ask_model
from bench.results import Run
from bench.summary import Outcome, Status, Summary, ms, table
from bench.texts import pick_text
from bench.trace import Arrival
from realtime_tts.client import ConnectionRefused
from realtime_tts.clock import MonotonicClock
from realtime_tts.errors import RealtimeTTSError


def planned(args: argparse.Namespace) -> Plan:
    """The plan that the command line asks for.  Raises ValueError where the trace to replay is none."""
    config = {"voice": args.voice, "sample_rate": args.sample_rate}
    connections = args.connections or ("user" if args.mode == "listeners" else "request")
    plan = Plan(
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
        # A random state of their own: with and without bursts, the rest of the load is the same.
        rng = Random(f"{args.seed}/bursts")
        arrivals = trace.merged(arrivals, trace.bursts(args.burst_size, args.burst_every, args.duration, rng, texts))
    return arrivals


def notes(summary: Summary, outcomes: Sequence[Outcome]) -> list[str]:
    """What stands below the table."""
    ttfp, underrun, late = summary.ttfp_difference_s, summary.underrun_difference_s, summary.late_s
    lines = [
        f"audible TTFA p50/p95 {ms(summary.ttfa_s.p50)}/{ms(summary.ttfa_s.p95)} ms,"
        f" {summary.audio_s_per_s:.1f} s of audio a second",
        f"|client - server| p50/p99: TTFP {ms(ttfp.p50)}/{ms(ttfp.p99)} ms,"
        f" underrun {ms(underrun.p50)}/{ms(underrun.p99)} ms",
        f"text sent p50/p99 {ms(late.p50)}/{ms(late.p99)} ms after the request was meant to come",
    ]
    if summary.retry_after_s.p50 is not None:
        lines.append(f"refused: come again after {summary.retry_after_s.p50:g} s (median)")
    if summary.waiting:
        lines.append(f"{summary.waiting} still waited for their first sound at the end")
    reasons = Counter(outcome.reason for outcome in outcomes if outcome.status is Status.FAILED)
    lines += [f"failed, {count} times: {reason}" for reason, count in reasons.most_common(5)]
    return lines


async def measure(args: argparse.Namespace, plan: Plan) -> tuple[Run, list[Arrival]]:
    """Carries out the plan, and gives its results and what was asked for."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        model = await ask_model(plan.url)
    except ConnectionRefused as refusal:
        if refusal.status != 503:
            raise
        model = "unknown: the server was full"
    load = Load(plan, MonotonicClock())
    outcomes = await load.run(stop, progress_line)
    conditions = results.conditions("bench.load")
    about = {
        "server": plan.url,
        "model": model,
        "load": described(plan),
        "ended": "early" if stop.is_set() else "as planned",
    }
    run = Run(
        args.label or described(plan),
        tuple(outcomes),
        duration_s=plan.duration_s,
        warm_up_s=args.warm_up,
        threshold_s=args.threshold_ms / 1000,
        conditions=conditions | about,
    )
    return run, load.arrivals()


def described(plan: Plan) -> str:
    """A plan in a few words."""
    if plan.stalled:
        return f"{described(replace(plan, stalled=0))}, {plan.stalled} who never read"
    if plan.mode == "open":
        return f"open, {len(plan.arrivals)} in {plan.duration_s:.0f} s"
    think = f", think {plan.think_s:g} s" if plan.mode == "listeners" else ""
    return f"{plan.mode}, c={plan.users}{think}"


def progress_line(line: str) -> None:
    """Over the last one on a terminal; else one below the other."""
    print(
        f"\r{line}" if sys.stderr.isatty() else line,
        end="" if sys.stderr.isatty() else "\n",
        file=sys.stderr,
        flush=True,
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.load",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""\
example, in two shells:
  realtime-tts serve --model tone --port 8100 --max-sessions 512
  python -m bench.load --url http://127.0.0.1:8100 --mode open --rate 12 --duration 60 --report load.html

the same load again, on another server or policy:
  python -m bench.load --rate 12 --trace load-trace.json;  python -m bench.load --trace-in load-trace.json

exit status: 0; 1 where --max-underrun-p95-ms is passed or nobody heard anything; 2 where there is no server.
""",
    )
    kind = parser.add_argument_group("the load")
    kind.add_argument("--url", default="http://127.0.0.1:8000", help="the server (default: %(default)s)")
    kind.add_argument("--mode", choices=("open", "closed", "listeners"), default="open", help="default: %(default)s")
    kind.add_argument("--rate", type=positive, default=1.0, help="open: requests a second (default: %(default)g)")
    kind.add_argument(
        "--burst-size", type=int, default=0, help="open: that many more at the same moment (default: none)"
    )
    kind.add_argument("--burst-every", type=positive, default=20.0, help="open: seconds between bursts (%(default)g)")
    kind.add_argument(
        "-c", "--concurrency", type=int, default=8, help="closed, listeners: users (default: %(default)s)"
    )
    kind.add_argument("--think", type=positive, default=5.0, help="listeners: mean seconds of thought (%(default)g)")
    kind.add_argument("--sentences", type=int, default=1, help="sentences in a request (default: %(default)s)")
    kind.add_argument(
        "--connections",
        choices=("user", "request"),
        help="one a user, kept from request to request, which goes with users who hear the end (the default of "
        "listeners), or a new one for each request (the default of the others)",
    )
    kind.add_argument("--stalled", type=int, default=0, help="so many more clients who never read (default: none)")
    kind.add_argument("--voice", help="a voice of the server's (default: its own default)")
    kind.add_argument("--sample-rate", type=int, help="8000 to 48000 Hz (default: the model's)")
    kind.add_argument("--seed", type=int, default=0, help="which random texts and times (default: %(default)s)")
    kind.add_argument("--trace-in", type=Path, help="ask for what this trace says; the format is in bench/trace.py")
    kind.add_argument("--allow-remote", action="store_true", help="let the server be on another machine")
    bounds = parser.add_argument_group("how long")
    bounds.add_argument("--duration", type=positive, default=60.0, help="seconds in which requests come (%(default)g)")
    bounds.add_argument("--drain", type=float, default=30.0, help="seconds to let the last ones finish (%(default)g)")
    bounds.add_argument(
        "--warm-up", type=float, default=0.0, help="seconds whose requests are not counted (%(default)g)"
    )
    outputs = parser.add_argument_group("what comes out")
    outputs.add_argument("--label", help="what the table and the report call this run")
    outputs.add_argument("--trace", type=Path, help="write what was asked for, to be replayed")
    outputs.add_argument("--json", type=Path, help="write every request's figures, with the conditions")
    outputs.add_argument("--report", type=Path, help="write a page with plots: one HTML file that needs nothing else")
    outputs.add_argument("--threshold-ms", type=float, default=100.0, help="what counts as gapless (%(default)g)")
    outputs.add_argument("--max-underrun-p95-ms", type=float, help="fail where the 95th percentile passes this")
    return parser.parse_args(arguments)


def positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text}")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    try:
        require_loopback(args.url, allow_remote=args.allow_remote)
        plan = planned(args)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            run, arrivals = runner.run(measure(args, plan))
    except (RealtimeTTSError, OSError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    summary = run.summary()
    print(table([(run.label, summary)]))
    print("\n".join(notes(summary, run.counted)))
    if args.trace:
        args.trace.write_text(trace.dumps(arrivals), encoding="utf-8")
    if args.json:
        args.json.write_bytes(results.dumps(run))
    if args.report:
        args.report.write_text(report.page([run]), encoding="utf-8")
    return verdict(summary, args.max_underrun_p95_ms)


def verdict(summary: Summary, max_underrun_p95_ms: float | None) -> int:
    """The exit status: 1 where the limit is passed, or nobody heard anything."""
    if summary.completed == 0:
        return 1
    p95_s = summary.underrun_s.p95
    passed = max_underrun_p95_ms is not None and (p95_s is None or p95_s * 1000 > max_underrun_p95_ms)
    return 1 if passed else 0


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one: the test must not be what is slow."""
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop


if __name__ == "__main__":
    sys.exit(main())
