"""The engine in virtual time: exact, repeatable, and the place where continuity is proven under any load."""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    EndStream,
    EngineEvent,
    FinishReason,
    RequestFinished,
    Submit,
    SynthesisRequest,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.policy import SCHEDULERS
from realtime_tts.engine.simulate import Simulation, VirtualExecutor
from realtime_tts.engine.stage import Model
from tests.fakes import raises_for, slots, wrapped

H200 = tone.ToneCosts(a0_s=0.009, b0_s=0.00103, prefill_s=0.012, a1_s=0.008, b1_s=0.00025, context_frames=25)


class Listeners:
    """Everyone who asks for speech in a simulation, and what each heard: all that is made is routed at once."""

    def __init__(
        self,
        config: EngineConfig | None = None,
        costs: tone.ToneCosts = H200,
        *,
        shared_lane: bool = False,
        change: Callable[[Model], Model] = lambda model: model,
    ) -> None:
        self.models: list[Model] = []
        self.heard: dict[str, PlayoutLedger] = {}
        self.ends: dict[str, RequestFinished] = {}
        self.arrived_s: dict[str, float] = {}
        self.stalled: set[str] = set()

        def build(spend: Callable[[float], None]) -> Model:
            self.models.append(tone.build(costs=costs, decode_batch=4, shared_lane=shared_lane, wait_s=spend))
            return change(self.models[0])

        self.simulation = Simulation(build, emit=self.emit, config=config)

    def arrive(self, at_s: float, text: str, name: str) -> None:
        def submit() -> None:
            self.heard[name] = PlayoutLedger()
            self.arrived_s[name] = at_s
            self.simulation.engine.handle(Submit(SynthesisRequest(name, name, text, "tone_low")))

        self.simulation.at(at_s, submit)

    def emit(self, events: list[EngineEvent]) -> None:
        now_s = self.simulation.clock.now_s()
        for event in events:
            name = event.request_id
            if isinstance(event, AudioReady):
                if name in self.stalled:
                    continue
                ledger = self.heard[name]
                ledger.record(arrived_at_s=now_s, duration_s=len(event.samples) / tone.SAMPLE_RATE_HZ)
                assert ledger.playout_end_s is not None
                self.simulation.engine.handle(AudioSent(name, len(event.samples), lead_s=ledger.lead_s(now_s)))
            elif isinstance(event, RequestFinished):
                assert name not in self.ends, "every request ends once"
                self.ends[name] = event

    def worst_underruns_s(self) -> list[float]:
        return [ledger.report().max_underrun_s for ledger in self.heard.values() if ledger.report().packets]


def crowd(listeners: Listeners, count: int, rate_hz: float, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    at_s = 0.0
    for number in range(count):
        at_s += float(rng.exponential(1 / rate_hz))
        listeners.arrive(at_s, "x" * int(rng.integers(30, 180)), f"r{number}")


def test_time_passes_by_the_costs_alone() -> None:
    costs = tone.ToneCosts(a0_s=0.01, a1_s=0.02)
    listeners = Listeners(EngineConfig(scheduler="policy_c"), costs)
    listeners.arrive(5.0, "x" * 50, "r0")  # 40 frames: chunks of 2, 25 and 13
    listeners.simulation.run(100.0)
    metrics = listeners.ends["r0"].metrics
    assert metrics is not None
    assert metrics.synthesis_s == pytest.approx(40 * 0.01 + 0.02)  # decoding runs beside the Talker, but for the last
    assert listeners.heard["r0"].report(5.0).ttfp_s == pytest.approx(2 * 0.01 + 0.02)


def test_the_same_happenings_give_the_same_sound_at_the_same_time() -> None:
    runs = []
    for _ in range(2):
        listeners = Listeners()
        crowd(listeners, 40, 8.0)
        listeners.simulation.run(60.0)
        runs.append([ledger.report(0.0) for ledger in listeners.heard.values()])
    assert runs[0] == runs[1]


@pytest.mark.parametrize("shared_lane", [False, True])
@pytest.mark.parametrize("max_wait_s", [0.5, None])
def test_under_overload_nobody_who_was_let_in_runs_dry(shared_lane: bool, max_wait_s: float | None) -> None:
    listeners = Listeners(EngineConfig(max_wait_s=max_wait_s), shared_lane=shared_lane)
    crowd(listeners, 300, 20.0)  # about one and a half times what two devices carry
    listeners.simulation.run(300.0)
    assert len(listeners.ends) == 300
    underruns_s = listeners.worst_underruns_s()
    assert np.percentile(underruns_s, 95) <= 0.1
    refused = sum(end.reason is FinishReason.ERROR for end in listeners.ends.values())
    assert len(underruns_s) == 300 - refused
    assert (refused == 0) is (max_wait_s is None)


def test_the_policy_that_we_are_compared_with_starves_the_same_crowd() -> None:
    listeners = Listeners(EngineConfig(scheduler="policy_c"))
    crowd(listeners, 300, 20.0)
    listeners.simulation.run(300.0)
    assert np.percentile(listeners.worst_underruns_s(), 95) > 1.0


@given(
    name=st.sampled_from(sorted(SCHEDULERS)),
    shared_lane=st.booleans(),
    arrivals=st.lists(st.tuples(st.floats(0, 10), st.integers(1, 150)), min_size=1, max_size=30),
    leaves=st.dictionaries(st.integers(0, 29), st.floats(0, 30), max_size=10),
    stalls=st.sets(st.integers(0, 29), max_size=3),
    fails=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_everyone_is_served_or_told_why_not_and_nothing_is_left_behind(
    name: str,
    shared_lane: bool,
    arrivals: list[tuple[float, int]],
    leaves: dict[int, float],
    stalls: set[int],
    fails: bool,
) -> None:
    """Any interleaving of arrivals, departures, stalled readers and failures, under every policy."""
    broken = "x" * 7

    def change(model: Model) -> Model:
        return wrapped(model, "talker", raises_for(broken)) if fails else model

    config = EngineConfig(scheduler=name, max_wait_s=None, max_unrouted_s=3.0)
    listeners = Listeners(config, shared_lane=shared_lane, change=change)
    engine = listeners.simulation.engine
    for number, (at_s, length) in enumerate(arrivals):
        listeners.arrive(at_s, "x" * length, f"r{number}")
    for number, at_s in leaves.items():
        listeners.simulation.at(at_s, lambda number=number: engine.handle(EndStream(f"r{number}")))  # type: ignore[misc]
    listeners.stalled = {f"r{number}" for number in stalls}
    listeners.simulation.run(500.0)
    for number in range(len(arrivals)):
        who = f"r{number}"
        if who in listeners.stalled and who not in listeners.ends:
            continue  # its own reader holds it back
        assert who in listeners.ends
        if listeners.ends[who].reason is FinishReason.COMPLETE and who not in listeners.stalled:
            assert listeners.heard[who].report().packets
    for number in range(len(arrivals)):
        listeners.simulation.at(600.0, lambda number=number: engine.handle(EndStream(f"r{number}")))  # type: ignore[misc]
    listeners.simulation.run(1000.0)
    assert len(listeners.ends) == len(arrivals)
    assert engine.status().active_requests == 0
    assert not engine._roster._streams
    assert not engine._roster.waiting
    assert slots(listeners.models[0]) == 0


def test_a_place_is_given_in_the_order_of_coming() -> None:
    listeners = Listeners(EngineConfig(max_wait_s=None))
    for number in range(200):
        listeners.arrive(number * 0.001, "x" * 80, f"r{number}")
    listeners.simulation.run(300.0)
    first_s = [listeners.heard[f"r{number}"].report(0.0).ttfp_s or 0.0 for number in range(200)]
    late = [b - a for a, b in itertools.pairwise(first_s)]
    assert min(late) > -1.0, "nobody is overtaken by more than those who start beside it"
    assert first_s[-1] > first_s[0]


def test_an_executor_that_is_closed_gives_nothing_back() -> None:
    listeners = Listeners()
    listeners.arrive(0.0, "xyz", "r0")
    listeners.simulation.run(0.001)
    executor = listeners.simulation._executor
    assert isinstance(executor, VirtualExecutor)
    assert executor.next_s() is not None
    executor.close()
    assert executor.next_s() is None


def test_costs_are_learnt_to_the_digit_where_they_are_exact() -> None:
    listeners = Listeners()
    crowd(listeners, 80, 8.0)
    listeners.simulation.run(60.0)
    costs = listeners.simulation.engine.status().costs
    assert costs is not None
    assert costs.frame(30) == pytest.approx(H200.a0_s + 30 * H200.b0_s, rel=0.01)
    assert dataclasses.astuple(costs.decode) == pytest.approx((H200.a1_s, H200.b1_s), rel=0.01)
    assert costs.prefill_s == pytest.approx(H200.prefill_s, rel=0.05)


def test_nobody_waits_for_ever_behind_those_who_never_stop() -> None:
    """Fifty who ask again the moment they are served, on streams of their own, and a hundred who came after them."""
    listeners = Listeners(EngineConfig(max_wait_s=None))
    simulation = listeners.simulation
    asked = dict.fromkeys(range(50), 0)
    served: list[str] = []

    def ask(user: int) -> None:
        name = f"u{user}-{asked[user]}"
        listeners.heard[name] = PlayoutLedger()
        one = SynthesisRequest(name, f"u{user}", "x" * 80, "tone_low", utterance_index=asked[user])
        simulation.engine.handle(Submit(one))
        asked[user] += 1

    emit = listeners.emit

    def emit_and_ask_again(events: list[EngineEvent]) -> None:
        emit(events)
        for event in events:
            if isinstance(event, RequestFinished):
                served.append(event.request_id)
                if event.request_id.startswith("u"):
                    user = int(event.request_id[1:].split("-")[0])
                    simulation.at(simulation.clock.now_s(), lambda user=user: ask(user))  # type: ignore[misc]

    simulation.engine._emit = emit_and_ask_again
    for user in range(50):
        simulation.at(0.0, lambda user=user: ask(user))  # type: ignore[misc]
    for number in range(100):
        listeners.arrive(1.0, "x" * 80, f"r{number}")
    simulation.run(60.0)
    assert {f"r{number}" for number in range(100)} <= set(served)
