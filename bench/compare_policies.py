"""Comparison of scheduling policies: the same trace under each policy, in alternation, each on a server of its own.

    python -m bench.compare_policies
    python -m bench.compare_policies --load 0.85 --rounds 3 --report compare.html
    python -m bench.compare_policies --model kokoro --load 1.2

Each round starts a server for every policy in sequence, sends it the same arrivals, and stops it.  With the model
`tone` the costs of a device (--profile) are waited instead of computed, so a small machine can imitate a large one; the
simulator's prediction for the same trace is printed with the results.  With `kokoro` the costs are real, and the rate
is in requests per second (--rate), since the capacity of this machine is not known beforehand.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from bench import options, outputs, results, simulate, trace
from bench.listeners import Load, LoadPlan
from bench.load import progress_line
from bench.options import positive
from bench.results import Run
from bench.server_process import HOST, Command, NotStarted, free_port, running
from bench.summary import Summary, ms
from bench.tables import run_text
from bench.texts import pick_text
from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.policy import SCHEDULERS

OURS = "deadline"
AGREEMENT = 0.15
"""Relative difference between live and simulated TTFP that counts as agreement."""


async def measure(policy: str, args: argparse.Namespace, arrivals: Sequence[trace.Arrival], number: int) -> Run:
    """One policy under the trace, on a live server."""
    port = free_port()
    command = [sys.executable, "-m", "realtime_tts", "serve", "--port", str(port), "--max-sessions", "4096"]
    command += ["--model", args.model, "--scheduler", policy, "--max-wait", str(args.max_wait)]
    if args.model == "tone":
        command += ["--set", f"profile={args.profile}", "--set", f"shared_lane={'true' if args.shared else 'false'}"]
        for stage, count in (args.replicas or {}).items():
            command += ["--set", f"{stage}_replicas={count}"]
    # A connection for every request: for the server each is a separate listener.
    plan = LoadPlan(
        url=f"http://{HOST}:{port}",
        duration_s=args.duration,
        drain_s=args.drain,
        arrivals=tuple(arrivals),
        keep_connections=False,
    )
    with tempfile.TemporaryDirectory() as logs:
        async with running(Command(tuple(command)), port, Path(logs) / "server.log"):
            outcomes = await Load(plan, MonotonicClock()).run(progress=progress_line)
    conditions = results.conditions("bench.compare_policies") | {"scheduler": policy, "device": args.profile}
    label = f"{policy}, live {number + 1}"
    return Run(label, tuple(outcomes), args.duration, warm_up_s=args.warm_up, conditions=conditions)


def predict(policy: str, args: argparse.Namespace, arrivals: Sequence[trace.Arrival]) -> Run:
    """The same policy under the same trace in the simulator."""
    device = simulate.device_of(args.profile, shared_lane=args.shared, replicas=args.replicas)
    plan = simulate.SimulationPlan(mode="open", duration_s=args.duration, drain_s=args.drain, arrivals=tuple(arrivals))
    max_wait_s = None if args.max_wait < 0 else args.max_wait
    config = EngineConfig(scheduler=policy, max_wait_s=max_wait_s, max_requests=100_000)
    run = simulate.simulate(device, plan, config, label=f"{policy}, simulated", warm_up_s=args.warm_up)
    return replace(run, conditions=run.conditions | results.conditions("bench.compare_policies"))


def arrivals_of(args: argparse.Namespace) -> list[trace.Arrival]:
    if args.trace_in:
        return trace.loads(args.trace_in.read_text("utf-8"))
    if args.model != "tone" or args.rate:
        return trace.poisson(args.rate or 0.5, args.duration, Random(args.seed), pick_text)
    device = simulate.device_of(args.profile, shared_lane=args.shared, replicas=args.replicas)
    plan = simulate.open_plan(device, rate_hz=None, load=args.load, duration_s=args.duration, seed=args.seed)
    return list(plan.arrivals)


async def compare(args: argparse.Namespace) -> list[Run]:
    arrivals = arrivals_of(args)
    print(f"{len(arrivals)} requests in {args.duration:g} s, the same for every run", file=sys.stderr)
    runs: list[Run] = []
    for number in range(args.rounds):
        for policy in args.policies:
            print(f"\n{policy}, round {number + 1} of {args.rounds}", file=sys.stderr)
            runs.append(await measure(policy, args, arrivals, number))
    if args.model == "tone":
        runs += [predict(policy, args, arrivals) for policy in args.policies]
    return runs


def ratios(runs: Sequence[Run]) -> list[str]:
    """Our figures divided by those of each other policy, in the same round."""
    live = {tuple(run.label.split(", ", 1)): run.summary() for run in runs}
    lines = []
    for (policy, round_name), theirs in live.items():
        ours = live.get((OURS, round_name))
        if policy == OURS or ours is None:
            continue
        lines.append(
            f"{round_name}: {OURS} / {policy}:"
            f"  underrun p95 {ms(ours.underrun_s.p95)} / {ms(theirs.underrun_s.p95)} ms"
            f"  TTFP p95 {_ratio(ours.ttfp_s.p95, theirs.ttfp_s.p95)}"
        )
    return lines


def agreement(runs: Sequence[Run]) -> list[str]:
    """The difference between simulation and measurement, by policy."""
    simulated = {run.label.split(", ")[0]: run.summary() for run in runs if run.label.endswith("simulated")}
    lines = []
    for run in runs:
        policy, kind = run.label.split(", ", 1)
        if policy in simulated and kind != "simulated":
            lines.append(f"{run.label} compared with the simulator: {_agreement(run.summary(), simulated[policy])}")
    return lines


def _agreement(live: Summary, simulated: Summary) -> str:
    if not live.ttfp_s.p95 or not simulated.ttfp_s.p95:
        return "no TTFP to compare"
    difference = live.ttfp_s.p95 / simulated.ttfp_s.p95 - 1
    verdicts = [None if s.underrun_s.p95 is None else s.underrun_s.p95 <= 0.1 for s in (live, simulated)]
    within = "within" if abs(difference) <= AGREEMENT else "beyond"
    same = "the same" if verdicts[0] == verdicts[1] else "a different"
    return f"TTFP p95 {difference:+.1%} ({within} {AGREEMENT:.0%}), {same} underrun verdict"


def _ratio(ours: float | None, theirs: float | None) -> str:
    return "-" if not ours or not theirs else f"{ours / theirs:.2f}x ({ms(ours)} / {ms(theirs)} ms)"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.make_parser("bench.compare_policies", __doc__)
    parser.add_argument("--policies", nargs="+", choices=sorted(SCHEDULERS), default=["policy_c", OURS])
    parser.add_argument("--model", default="tone", help="tone or kokoro")
    parser.add_argument("--profile", choices=sorted(tone.PROFILES), default="h200", help="device of tone")
    parser.add_argument("--shared", action="store_true", help="tone: both stages on one device")
    parser.add_argument("--replicas", type=options.stage_counts, help=f"tone: {options.STAGE_COUNTS_HELP}")
    parser.add_argument("--load", type=float, default=1.2, help="share of the device's capacity")
    parser.add_argument("--rate", type=float, help="requests per second, instead of --load  [default of kokoro: 0.5]")
    parser.add_argument("--trace-in", type=Path, help="use these arrivals")
    parser.add_argument("--max-wait", type=float, default=0.5, help="refuse longer waits, in seconds; -1 never refuses")
    parser.add_argument("--rounds", type=int, default=1, help="rounds, each with every policy")
    parser.add_argument("--duration", type=positive, default=60.0, help="seconds in which requests arrive")
    parser.add_argument("--drain", type=float, default=30.0, help="seconds for the last requests to finish")
    parser.add_argument("--warm-up", type=float, default=15.0, help="first seconds, not counted")
    parser.add_argument("--seed", type=int, default=0, help="of the random texts and times")
    outputs.add_outputs(parser)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    try:
        runs = asyncio.run(compare(args))
    except (NotStarted, OSError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    print(run_text(runs))
    for line in (*ratios(runs), *agreement(runs)):
        print(line)
    outputs.write_outputs(args, runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
