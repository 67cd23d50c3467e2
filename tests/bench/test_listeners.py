"""Concurrent listeners of a real server: an outcome for every request, and a bounded load."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from bench.listeners import Load, LoadPlan, served_model
from bench.summary import Outcome, Status
from bench.trace import Arrival
from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.server.app import ServerLimits
from tests.fakes import raises_for, until, wrapped
from tests.serving import tone_server

SLOW = tone.ToneCosts(a0_s=0.3)
"""0.3 s per codec frame of 80 ms: no stream is continuous."""

NO_ADMISSION = EngineConfig(scheduler="policy_c")
"""Refuses no request, even if it is too slow."""


async def loaded(plan: LoadPlan) -> list[Outcome]:
    async with asyncio.timeout(20):
        return await Load(plan, MonotonicClock()).run()


def at(*times_s: float, session: str | None = None) -> tuple[Arrival, ...]:
    return tuple(Arrival(at_s, f"This is request number {at_s}.", session) for at_s in times_s)


async def test_an_open_load_requests_everything_at_its_time() -> None:
    arrivals = at(0.0, 0.0, 0.1, 0.3)
    for keep_connections in (True, False):
        async with tone_server() as (url, _):
            outcomes = await loaded(LoadPlan(url=url, arrivals=arrivals, keep_connections=keep_connections))
        assert [outcome.status for outcome in outcomes] == [Status.OK] * 4
        assert [(outcome.intended_s, outcome.text) for outcome in outcomes] == [(a.at_s, a.text) for a in arrivals]
        assert all(outcome.sent_s is not None and outcome.sent_s >= outcome.intended_s for outcome in outcomes)
        assert all(outcome.audio_s > 1 and outcome.packets > 1 for outcome in outcomes)


@pytest.mark.slow
async def test_client_and_server_agree_on_the_underrun() -> None:
    costs = tone.ToneCosts(a0_s=0.09)  # slower than speech: every stream has an underrun
    async with tone_server(tone.build(costs=costs), config=NO_ADMISSION) as (url, _):
        outcomes = await loaded(LoadPlan(url=url, arrivals=at(0.0, 0.1)))
    assert [outcome.status for outcome in outcomes] == [Status.OK] * 2
    for outcome in outcomes:
        assert outcome.server is not None
        assert outcome.server.ttfp_s is not None
        assert outcome.max_underrun_s > 0
        # Delays of this machine affect both sides, so only their order of magnitude is comparable.
        assert outcome.server.max_underrun_s == pytest.approx(outcome.max_underrun_s, rel=0.5)


async def test_arrivals_of_one_session_share_a_connection_in_sequence() -> None:
    limits = ServerLimits(max_sessions=1)
    async with tone_server(tone.build(costs=tone.ToneCosts(a0_s=0.005)), limits) as (url, _):
        outcomes = await loaded(LoadPlan(url=url, arrivals=at(0.0, 0.01, 0.02, session="a")))
    assert [outcome.status for outcome in outcomes] == [Status.OK] * 3
    for earlier, later in pairwise(outcomes):
        assert later.sent_s is not None
        assert later.sent_s >= earlier.ended_s
        assert later.ttfp_s is not None
        assert later.ttfp_s > later.sent_s - later.intended_s, "the wait for the previous request must count"


async def test_closed_users_request_the_same_texts_by_seed() -> None:
    async with tone_server() as (url, _):
        runs = [
            Load(
                LoadPlan(url=url, mode="closed", users=3, duration_s=0.3, seed=7, keep_connections=True),
                MonotonicClock(),
            )
            for _ in range(2)
        ]
        outcomes = [await load.run() for load in runs]
    assert all(len(some) > 6 for some in outcomes)
    assert all(outcome.status is Status.OK for some in outcomes for outcome in some)
    first, again = ([a.text for a in load.arrivals() if a.session == "u1"] for load in runs)
    common = min(len(first), len(again))
    assert first[:common] == again[:common]


async def test_a_kept_connection_is_reused_after_the_end_of_playback() -> None:
    arrivals = (Arrival(0.0, "Hello."), Arrival(0.1, "Hello."), Arrival(0.7, "Hello."))  # each 0.4 s of speech
    async with tone_server() as (url, server):
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, server.active_sessions)
                await asyncio.sleep(0.01)

        watching = asyncio.create_task(watch())
        outcomes = await loaded(LoadPlan(url=url, arrivals=arrivals, keep_connections=True))
        watching.cancel()
    assert [outcome.status for outcome in outcomes] == [Status.OK] * 3
    assert most == 2


@pytest.mark.slow
async def test_listeners_wait_for_the_end_of_playback() -> None:
    async with tone_server() as (url, _):
        plan = LoadPlan(url=url, mode="listeners", users=6, duration_s=4.0, think_s=0.2, keep_connections=True)
        load = Load(plan, MonotonicClock())
        outcomes = await load.run()
    assert {outcome.status for outcome in outcomes} == {Status.OK}
    by_user: dict[str | None, list[Outcome]] = {}
    for outcome, record in zip(outcomes, load.records, strict=True):
        by_user.setdefault(record.session, []).append(outcome)
    pairs = [pair for of_one in by_user.values() for pair in pairwise(of_one)]
    assert pairs
    assert all(later.intended_s >= earlier.intended_s + earlier.audio_s for earlier, later in pairs)


async def test_a_listener_without_capacity_is_refused_with_a_retry_time() -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.02))
    async with tone_server(model, ServerLimits(max_sessions=1)) as (url, _):
        outcomes = await loaded(LoadPlan(url=url, arrivals=at(0.0, 0.2)))
    assert [outcome.status for outcome in outcomes] == [Status.OK, Status.REFUSED]
    assert outcomes[1].retry_after_s == 5
    assert outcomes[1].ttfp_s is None


async def test_a_refused_user_does_not_retry_at_once() -> None:
    model = tone.build(costs=SLOW)
    async with tone_server(model, ServerLimits(max_sessions=1)) as (url, _):
        outcomes = await loaded(LoadPlan(url=url, mode="closed", users=2, duration_s=0.5, drain_s=0.2))
    assert sorted(outcome.status for outcome in outcomes) == [Status.REFUSED, Status.UNFINISHED]


async def test_a_failure_has_its_reason() -> None:
    model = wrapped(tone.build(), "talker", raises_for("This is request number 0.0."))
    async with tone_server(model) as (url, _):
        outcomes = await loaded(LoadPlan(url=url, arrivals=at(0.0, 0.1)))
    assert [outcome.status for outcome in outcomes] == [Status.FAILED, Status.OK]
    assert outcomes[0].reason


async def test_without_a_server_every_request_fails() -> None:
    outcomes = await loaded(LoadPlan(url="http://127.0.0.1:9", arrivals=at(0.0)))
    assert [outcome.status for outcome in outcomes] == [Status.FAILED]


async def test_unfinished_requests_are_interrupted_and_counted() -> None:
    async with tone_server(tone.build(costs=SLOW), config=NO_ADMISSION) as (url, server):
        outcomes = await loaded(LoadPlan(url=url, arrivals=at(0.0, 0.0), duration_s=0.5, drain_s=1.0))
        assert server.active_sessions == 0
    assert [outcome.status for outcome in outcomes] == [Status.UNFINISHED] * 2
    assert all(outcome.packets and outcome.continuity_ok is False for outcome in outcomes)


async def test_the_load_stops_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.listeners.PROGRESS_EVERY_S", 0.02)
    stop = asyncio.Event()
    lines: list[str] = []
    async with tone_server() as (url, _):
        load = Load(LoadPlan(url=url, mode="closed", users=2, duration_s=600), MonotonicClock())
        running = asyncio.create_task(load.run(stop, lines.append))
        await until(lambda: sum(record.status is Status.OK for record in load.records) > 2 and bool(lines))
        stop.set()
        outcomes = await asyncio.wait_for(running, 10)
    assert sum(outcome.status is Status.OK for outcome in outcomes) > 2
    assert "ok" in lines[0]


async def test_the_server_names_its_model() -> None:
    async with tone_server() as (url, _):
        assert await served_model(url) == "tone"


async def test_stalled_clients_connect_and_are_not_counted() -> None:
    async with tone_server() as (url, server):
        load: dict[str, Any] = {"mode": "listeners", "users": 3, "think_s": 0.05, "duration_s": 0.6, "drain_s": 1.0}
        plan = LoadPlan(url=url, keep_connections=True, stalled=2, **load)
        loading = asyncio.create_task(loaded(plan))
        await until(lambda: server.active_sessions == 5)
        outcomes = await loading
    assert len(outcomes) >= 3
    assert all(outcome.status is Status.OK for outcome in outcomes)
