"""How would a policy fare on another machine?  The engine's own loop in virtual time, with costs in place of work.

    python -m bench.simulate --mode closed -c 64 128 256 --scheduler policy_c deadline
    python -m bench.simulate --mode open --load 0.85 1.2 --profile h200_stateful
    python -m bench.simulate --mode open --trace-in trace.json --costs-url http://127.0.0.1:8000

It is the code that serves: the same engine, policies and admission, driven by a clock that jumps.  A model's costs are
those of a profile (--profile, see realtime_tts/engine/models/tone.py), or those that a live server has fitted to its
own steps (--costs-url).  Loads: closed (-c users, each at once again), open (Poisson at --rate, or --load of what the
device can carry), listeners (-c users who hear the end and think), each with bursts if asked, or a trace.
"""

import argparse
import json
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from bench import report, results, trace
from bench.results import Run
from bench.summary import Outcome, Packet, Status, judge, table
from bench.texts import pick_text, spoken_s
from bench.trace import Arrival
from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    EndStream,
    EngineEvent,
    RequestFinished,
    Submit,
    SynthesisRequest,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.policy import SCHEDULERS
from realtime_tts.engine.simulate import Simulation
from realtime_tts.engine.stage import Model

START_SPREAD_S = 0.2
RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Device:
    """What the steps cost, and whether both stages share it."""

    costs: tone.ToneCosts
    decode_batch: int
    shared_lane: bool = False

    def build(self, spend: Callable[[float], None]) -> Model:
        return tone.build(costs=self.costs, decode_batch=self.decode_batch, shared_lane=self.shared_lane, wait_s=spend)

    def carries(self) -> int:
        """N*: the most streams that could all be continuous, with full chunks and nothing lost to prefill."""
        frame_s = tone.SAMPLES_PER_FRAME / tone.SAMPLE_RATE_HZ
        costs, frames = self.costs, 25
        streams = 1
        while True:
            talker = (costs.a0_s + costs.b0_s * streams) / frame_s
            decode_s = costs.a1_s / self.decode_batch + costs.b1_s * (frames + costs.context_frames)
            decoder = streams * decode_s / (frames * frame_s)
            if (talker + decoder if self.shared_lane else max(talker, decoder)) > 1:
                return max(1, streams - 1)
            streams += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A load, whole: with the same plan and seed the same is asked for."""

    mode: str
    duration_s: float = 60.0
    drain_s: float = 30.0
    concurrency: int = 1
    arrivals: tuple[Arrival, ...] = ()
    think_s: float = 3.0
    seed: int = 0


class _Asked:
    """One request on its way."""

    def __init__(self, intended_s: float, text: str, user: int | None) -> None:
        self.intended_s = intended_s
        self.text = text
        self.user = user
        self.packets: list[Packet] = []
        self.ledger = PlayoutLedger()


class Crowd:
    """Everybody who asks, in virtual time.  What is made is heard of at once: there is no network here."""

    def __init__(self, device: Device, plan: Plan, config: EngineConfig) -> None:
        self._plan = plan
        self._rng = Random(plan.seed)
        self._asked: dict[str, _Asked] = {}
        self._outcomes: list[Outcome] = []
        self._count = 0
        self._simulation = Simulation(device.build, emit=self._emit, config=config)

    def run(self) -> list[Outcome]:
        plan = self._plan
        if plan.mode == "open":
            for arrival in plan.arrivals:
                self._simulation.at(arrival.at_s, partial(self._ask, arrival.at_s, arrival.text, None))
        else:
            spread_s = START_SPREAD_S if plan.mode == "closed" else plan.think_s + 5.0
            for user in range(plan.concurrency):
                self._next(self._rng.uniform(0.0, spread_s), user)
        self._simulation.run(plan.duration_s + (plan.drain_s if plan.mode == "open" else 0.0))
        now_s = self._simulation.clock.now_s()
        for asked in self._asked.values():
            self._judge(asked, now_s, Status.UNFINISHED)
        return self._outcomes

    def _next(self, at_s: float, user: int) -> None:
        if at_s < self._plan.duration_s:
            self._simulation.at(at_s, lambda: self._ask(at_s, pick_text(self._rng), user))

    def _ask(self, intended_s: float, text: str, user: int | None) -> None:
        name = f"r{self._count}"
        self._count += 1
        self._asked[name] = _Asked(intended_s, text, user)
        self._simulation.engine.handle(Submit(SynthesisRequest(name, name, text, "tone_low")))

    def _emit(self, events: list[EngineEvent]) -> None:
        now_s = self._simulation.clock.now_s()
        for event in events:
            asked = self._asked[event.request_id]
            if isinstance(event, AudioReady):
                duration_s = len(event.samples) / tone.SAMPLE_RATE_HZ
                asked.packets.append(Packet(now_s, duration_s))
                asked.ledger.record(arrived_at_s=now_s, duration_s=duration_s)
                lead_s = asked.ledger.lead_s(now_s)
                self._simulation.engine.handle(AudioSent(event.request_id, len(event.samples), lead_s))
            elif isinstance(event, RequestFinished):
                self._end(event, asked, now_s)

    def _end(self, event: RequestFinished, asked: _Asked, now_s: float) -> None:
        del self._asked[event.request_id]
        self._simulation.at(now_s, partial(self._simulation.engine.handle, EndStream(event.request_id)))
        refusal = event.error
        if refusal is None:
            self._judge(asked, now_s, Status.OK)
        else:
            self._judge(asked, now_s, Status.REFUSED, refusal.message, refusal.retry_after_s)
        if asked.user is None:
            return
        if refusal is not None:
            self._next(now_s + RETRY_S, asked.user)
        elif self._plan.mode == "listeners":
            thought_s = self._rng.expovariate(1.0 / self._plan.think_s)
            self._next(max(now_s, now_s + asked.ledger.lead_s(now_s)) + thought_s, asked.user)
        else:
            self._next(now_s + 0.001, asked.user)

    def _judge(
        self, asked: _Asked, now_s: float, status: Status, reason: str = "", retry_after_s: float | None = None
    ) -> None:
        self._outcomes.append(
            judge(
                intended_s=asked.intended_s,
                ended_s=now_s,
                status=status,
                timeline=asked.packets,
                reason=reason,
                sent_s=asked.intended_s,
                retry_after_s=retry_after_s,
                text=asked.text,
            )
        )


def simulate(device: Device, plan: Plan, config: EngineConfig, *, label: str = "", warm_up_s: float = 15.0) -> Run:
    """One load under one configuration."""
    outcomes = tuple(Crowd(device, plan, config).run())
    about = {"device": str(device), "scheduler": config.scheduler, "max wait": str(config.max_wait_s)}
    conditions = results.conditions("bench.simulate") | about
    return Run(label, outcomes, duration_s=plan.duration_s, warm_up_s=warm_up_s, conditions=conditions)


def open_plan(device: Device, *, rate_hz: float | None, load: float, duration_s: float, seed: int) -> Plan:
    """Poisson arrivals at a rate, or at a share of what the device carries by `Device.carries`."""
    if rate_hz is None:
        rng = Random(0)
        mean_s = sum(spoken_s(pick_text(rng)) for _ in range(500)) / 500
        rate_hz = load * device.carries() / mean_s
    arrivals = trace.poisson(rate_hz, duration_s, Random(seed), pick_text)
    return Plan(mode="open", duration_s=duration_s, arrivals=tuple(arrivals), seed=seed)


def device_of(profile: str, *, shared_lane: bool) -> Device:
    costs, decode_batch = tone.PROFILES[profile]
    return Device(costs, decode_batch, shared_lane)


def fitted_costs(url: str) -> Any:
    """The costs that a live server has fitted to its own steps, as /readyz tells them."""
    with urllib.request.urlopen(f"{url.rstrip('/')}/readyz", timeout=5) as answer:
        return json.load(answer)["costs"]


def fitted_device(url: str, usual: Device) -> Device:
    """The device of a live server, by its fitted costs; batch, context and lanes are those of `usual`."""
    costs = fitted_costs(url)
    fitted = tone.ToneCosts(
        a0_s=costs["frame"]["base_s"],
        b0_s=costs["frame"]["per_unit_s"],
        prefill_s=costs["prefill_s"],
        a1_s=costs["decode"]["base_s"],
        b1_s=costs["decode"]["per_unit_s"],
        context_frames=usual.costs.context_frames,
    )
    return replace(usual, costs=fitted)


def plans_of(args: argparse.Namespace, device: Device) -> list[tuple[str, Plan]]:
    if args.trace_in:
        arrivals = tuple(trace.loads(args.trace_in.read_text("utf-8")))
        return [("trace", Plan(mode="open", duration_s=arrivals[-1].at_s, arrivals=arrivals, seed=args.seed))]
    if args.mode != "open":
        common = {"mode": args.mode, "duration_s": args.duration, "think_s": args.think, "seed": args.seed}
        return [(f"{args.mode} c={c}", Plan(concurrency=c, **common)) for c in args.concurrency]
    rates = [(f"open {rate:g}/s", rate, 0.0) for rate in args.rate or ()]
    loads = [(f"open load {load:g}", None, load) for load in args.load or (() if rates else (0.85,))]
    plans = []
    for label, rate_hz, load in [*rates, *loads]:
        plan = open_plan(device, rate_hz=rate_hz, load=load, duration_s=args.duration, seed=args.seed)
        if args.burst_size:
            extra = trace.bursts(args.burst_size, args.burst_every, args.duration, Random(args.seed + 1), pick_text)
            plan = replace(plan, arrivals=tuple(trace.merged(plan.arrivals, extra)))
        plans.append((label, plan))
    return plans


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.simulate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=("closed", "open", "listeners"), default="closed", help="%(default)s")
    parser.add_argument("-c", "--concurrency", type=int, nargs="+", default=[64, 128, 256], help="users (%(default)s)")
    parser.add_argument("--rate", type=float, nargs="+", help="open: requests a second")
    parser.add_argument("--load", type=float, nargs="+", help="open: share of what the device can carry (0.85)")
    parser.add_argument("--burst-size", type=int, default=0, help="open: that many more at once ...")
    parser.add_argument("--burst-every", type=float, default=20.0, help="... every so many seconds (%(default)g)")
    parser.add_argument("--think", type=float, default=3.0, help="listeners: mean seconds of thought (%(default)g)")
    parser.add_argument("--trace-in", type=Path, help="a trace of bench.load in place of a load")
    parser.add_argument("--profile", choices=sorted(tone.PROFILES), default="h200", help="device costs (%(default)s)")
    parser.add_argument("--costs-url", help="take the costs that this live server has fitted")
    parser.add_argument("--shared", action="store_true", help="both stages on one device")
    parser.add_argument("--scheduler", nargs="+", choices=sorted(SCHEDULERS), default=["policy_c", "deadline"])
    parser.add_argument("--max-wait", type=float, default=0.5, help="refuse who would wait longer, -1 never (0.5)")
    parser.add_argument("--duration", type=float, default=60.0, help="simulated seconds (%(default)g)")
    parser.add_argument("--warm-up", type=float, default=15.0, help="seconds that are not counted (%(default)g)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write every request's figures, with the conditions")
    parser.add_argument("--report", type=Path, help="write a page with plots: one HTML file that needs nothing else")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    device = device_of(args.profile, shared_lane=args.shared)
    if args.costs_url:
        device = fitted_device(args.costs_url, device)
    print(f"{args.profile}: {device.costs}, Code2Wav batch {device.decode_batch}, N* = {device.carries()}")
    runs: list[Run] = []
    began = time.perf_counter()
    for load, plan in plans_of(args, device):
        for scheduler in args.scheduler:
            max_wait_s = None if args.max_wait < 0 else args.max_wait
            config = EngineConfig(scheduler=scheduler, max_wait_s=max_wait_s, max_requests=100_000)
            warm_up_s = 0.0 if args.trace_in else args.warm_up
            runs.append(simulate(device, plan, config, label=f"{load}, {scheduler}", warm_up_s=warm_up_s))
            print(f"  {runs[-1].label}: {len(runs[-1].outcomes)} requests", file=sys.stderr)
    print(table([(run.label, run.summary()) for run in runs]))
    print(f"({time.perf_counter() - began:.1f} s of real time)", file=sys.stderr)
    if args.json:
        args.json.write_bytes(results.dumps_all(runs))
    if args.report:
        args.report.write_text(report.page(runs), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
