"""Simulation of a load on another device: the engine's own loop in virtual time, with costs in place of work.

    python -m bench.simulate --mode closed -c 64 128 256 --scheduler policy_c deadline
    python -m bench.simulate --mode open --load 0.85 1.2 --profile h200_stateful
    python -m bench.simulate --mode open --trace-in trace.json --costs-url http://127.0.0.1:8000

It is the code that serves: the same engine, policies and admission, with a virtual clock.  The costs of a model are
those of a profile (--profile, see realtime_tts/engine/models/tone.py), or those that a live server has fitted to its
own steps (--costs-url).  Loads: closed (-c users, each requesting again at once), open (Poisson at --rate, or at --load
of the device's capacity, with optional bursts), listeners (-c users who listen to the end, then pause), or a trace.
"""

import argparse
import json
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from bench import options, outputs, results, trace
from bench.request_record import RequestRecord
from bench.results import Run
from bench.summary import Outcome
from bench.tables import run_text
from bench.texts import pick_text, spoken_s
from bench.trace import Arrival
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
    """The costs of the steps, and whether both stages share the device."""

    costs: tone.ToneCosts
    decode_batch: int
    shared_lane: bool = False
    talkers: int = 1
    decoders: int = 1

    def build(self, spend: Callable[[float], None]) -> Model:
        return tone.build(
            costs=self.costs,
            decode_batch=self.decode_batch,
            shared_lane=self.shared_lane,
            talker_replicas=self.talkers,
            code2wav_replicas=self.decoders,
            wait_s=spend,
        )

    def capacity(self) -> int:
        """N*: the largest number of streams that can all be continuous, with full chunks and without prefill."""
        frame_s = tone.SAMPLES_PER_FRAME / tone.SAMPLE_RATE_HZ
        costs, frames = self.costs, 25
        streams = 1
        while True:
            talker = (costs.a0_s + costs.b0_s * streams / self.talkers) / frame_s
            decode_s = costs.a1_s / self.decode_batch + costs.b1_s * (frames + costs.context_frames)
            decoder = streams / self.decoders * decode_s / (frames * frame_s)
            if (talker + decoder if self.shared_lane else max(talker, decoder)) > 1:
                return max(1, streams - 1)
            streams += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationPlan:
    """A complete load: the same plan and seed give the same requests."""

    mode: str
    duration_s: float = 60.0
    drain_s: float = 30.0
    concurrency: int = 1
    arrivals: tuple[Arrival, ...] = ()
    think_s: float = 3.0
    seed: int = 0


class SimulatedLoad:
    """All users in virtual time.  Audio arrives as soon as it is made: there is no network."""

    def __init__(self, device: Device, plan: SimulationPlan, config: EngineConfig) -> None:
        self._plan = plan
        self._rng = Random(plan.seed)
        self._active: dict[str, tuple[RequestRecord, int | None]] = {}
        """The record and the user of each request in progress."""
        self._records: list[RequestRecord] = []
        self._simulation = Simulation(device.build, emit=self._emit, config=config)

    def run(self) -> list[Outcome]:
        plan = self._plan
        if plan.mode == "open":
            for arrival in plan.arrivals:
                self._simulation.at(arrival.at_s, partial(self._submit, arrival.at_s, arrival.text, None))
        else:
            spread_s = START_SPREAD_S if plan.mode == "closed" else plan.think_s + 5.0
            for user in range(plan.concurrency):
                self._next(self._rng.uniform(0.0, spread_s), user)
        self._simulation.run(plan.duration_s + (plan.drain_s if plan.mode == "open" else 0.0))
        for record in self._records:
            record.interrupt(self._simulation.clock.now_s())
        return [record.outcome() for record in self._records]

    def _next(self, at_s: float, user: int) -> None:
        if at_s < self._plan.duration_s:
            self._simulation.at(at_s, lambda: self._submit(at_s, pick_text(self._rng), user))

    def _submit(self, intended_s: float, text: str, user: int | None) -> None:
        name = f"r{len(self._records)}"
        record = RequestRecord(text, intended_s)
        record.on_sending(intended_s)
        self._records.append(record)
        self._active[name] = record, user
        self._simulation.engine.handle(Submit(SynthesisRequest(name, name, text, "tone_low")))

    def _emit(self, events: list[EngineEvent]) -> None:
        now_s = self._simulation.clock.now_s()
        for event in events:
            if isinstance(event, AudioReady):
                record, _user = self._active[event.request_id]
                record.on_packet(len(event.samples) / tone.SAMPLE_RATE_HZ, now_s)
                lead_s = record.playback_end_s - now_s
                self._simulation.engine.handle(AudioSent(event.request_id, len(event.samples), lead_s))
            elif isinstance(event, RequestFinished):
                self._end(event, now_s)

    def _end(self, event: RequestFinished, now_s: float) -> None:
        record, user = self._active.pop(event.request_id)
        self._simulation.at(now_s, partial(self._simulation.engine.handle, EndStream(event.request_id)))
        refusal = event.error
        if refusal is None:
            record.finish(now_s)
        else:
            record.refuse(refusal.message, now_s, refusal.retry_after_s)
        if user is None:
            return
        if refusal is not None:
            self._next(now_s + RETRY_S, user)
        elif self._plan.mode == "listeners":
            pause_s = self._rng.expovariate(1.0 / self._plan.think_s)
            self._next(max(now_s, record.playback_end_s) + pause_s, user)
        else:
            self._next(now_s + 0.001, user)


def simulate(
    device: Device, plan: SimulationPlan, config: EngineConfig, *, label: str = "", warm_up_s: float = 15.0
) -> Run:
    """One load under one configuration."""
    outcomes = tuple(SimulatedLoad(device, plan, config).run())
    conditions = results.conditions("bench.simulate")
    conditions |= {"device": str(device), "scheduler": config.scheduler, "max wait": str(config.max_wait_s)}
    return Run(label, outcomes, duration_s=plan.duration_s, warm_up_s=warm_up_s, conditions=conditions)


def open_plan(device: Device, *, rate_hz: float | None, load: float, duration_s: float, seed: int) -> SimulationPlan:
    """Poisson arrivals at a rate, or at a share of `Device.capacity`."""
    if rate_hz is None:
        rng = Random(0)
        mean_s = sum(spoken_s(pick_text(rng)) for _ in range(500)) / 500
        rate_hz = load * device.capacity() / mean_s
    arrivals = trace.poisson(rate_hz, duration_s, Random(seed), pick_text)
    return SimulationPlan(mode="open", duration_s=duration_s, arrivals=tuple(arrivals), seed=seed)


def device_of(profile: str, *, shared_lane: bool, replicas: Mapping[str, int] | None = None) -> Device:
    """`replicas` of the stages `talker` and `code2wav`; one where it has none."""
    costs, decode_batch = tone.PROFILES[profile]
    counts = replicas or {}
    return Device(costs, decode_batch, shared_lane, counts.get("talker", 1), counts.get("code2wav", 1))


def fitted_costs(url: str) -> Any:
    """The costs that a live server has fitted to its own steps, from /readyz."""
    with urllib.request.urlopen(f"{url.rstrip('/')}/readyz", timeout=5) as response:
        return json.load(response)["costs"]


def fitted_device(url: str, base: Device) -> Device:
    """The device of a live server with its fitted costs; batch, context and lanes are those of `base`."""
    costs = fitted_costs(url)
    fitted = tone.ToneCosts(
        a0_s=costs["frame"]["base_s"],
        b0_s=costs["frame"]["per_unit_s"],
        prefill_s=costs["prefill_s"],
        a1_s=costs["decode"]["base_s"],
        b1_s=costs["decode"]["per_unit_s"],
        context_frames=base.costs.context_frames,
    )
    return replace(base, costs=fitted)


def plans_of(args: argparse.Namespace, device: Device) -> list[tuple[str, SimulationPlan]]:
    if args.trace_in:
        arrivals = tuple(trace.loads(args.trace_in.read_text("utf-8")))
        return [("trace", SimulationPlan(mode="open", duration_s=arrivals[-1].at_s, arrivals=arrivals, seed=args.seed))]
    if args.mode != "open":
        common = {"mode": args.mode, "duration_s": args.duration, "think_s": args.think, "seed": args.seed}
        return [(f"{args.mode} c={c}", SimulationPlan(concurrency=c, **common)) for c in args.concurrency]
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
    parser = options.make_parser("bench.simulate", __doc__)
    parser.add_argument("--mode", choices=("closed", "open", "listeners"), default="closed", help="see above")
    parser.add_argument("-c", "--concurrency", type=int, nargs="+", default=[64, 128, 256], help="users")
    parser.add_argument("--rate", type=float, nargs="+", help="open: requests per second")
    parser.add_argument("--load", type=float, nargs="+", help="open: share of the device's capacity  [default: 0.85]")
    parser.add_argument("--burst-size", type=int, default=0, help="open: additional simultaneous requests")
    parser.add_argument("--burst-every", type=float, default=20.0, help="open: seconds between bursts")
    parser.add_argument("--think", type=float, default=3.0, help="listeners: mean pause in seconds")
    parser.add_argument("--trace-in", type=Path, help="a trace of bench.load instead of a load")
    parser.add_argument("--profile", choices=sorted(tone.PROFILES), default="h200", help="device costs")
    parser.add_argument("--costs-url", help="use the costs that this live server has fitted")
    parser.add_argument("--shared", action="store_true", help="both stages on one device")
    parser.add_argument("--replicas", type=options.stage_counts, help=options.STAGE_COUNTS_HELP)
    parser.add_argument("--scheduler", nargs="+", choices=sorted(SCHEDULERS), default=["policy_c", "deadline"])
    parser.add_argument("--max-wait", type=float, default=0.5, help="refuse longer waits, in seconds; -1 never refuses")
    parser.add_argument("--duration", type=float, default=60.0, help="simulated seconds")
    parser.add_argument("--warm-up", type=float, default=15.0, help="first seconds, not counted")
    parser.add_argument("--seed", type=int, default=0, help="of the random texts and times")
    outputs.add_outputs(parser)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    device = device_of(args.profile, shared_lane=args.shared, replicas=args.replicas)
    if args.costs_url:
        device = fitted_device(args.costs_url, device)
    print(f"{args.profile}: {device.costs}, Code2Wav batch {device.decode_batch}, N* = {device.capacity()}")
    runs: list[Run] = []
    start_s = time.perf_counter()
    for load, plan in plans_of(args, device):
        for scheduler in args.scheduler:
            max_wait_s = None if args.max_wait < 0 else args.max_wait
            config = EngineConfig(scheduler=scheduler, max_wait_s=max_wait_s, max_requests=100_000)
            warm_up_s = 0.0 if args.trace_in else args.warm_up
            runs.append(simulate(device, plan, config, label=f"{load}, {scheduler}", warm_up_s=warm_up_s))
            print(f"  {runs[-1].label}: {len(runs[-1].outcomes)} requests", file=sys.stderr)
    print(run_text(runs))
    print(f"({time.perf_counter() - start_s:.1f} s of real time)", file=sys.stderr)
    outputs.write_outputs(args, runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
