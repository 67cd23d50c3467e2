"""Sessions: capacity, the selected engine, drain and stop, without a server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web

from realtime_tts.clock import VirtualClock
from realtime_tts.engine.api import EngineStatus
from realtime_tts.errors import ModelNotFound, NotReady, Overloaded, QuotaExceeded, UnknownScheduler
from realtime_tts.frontends.engines import Engines
from realtime_tts.server.access import CALLER, Caller
from realtime_tts.server.rate_limit import KeyQuota, QuotaLimits
from realtime_tts.server.sessions import Sessions
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.observer import NoObserver
from realtime_tts.session.runner import no_references
from tests.fakes import FakeClient, FakeEngine, until
from tests.server.middleware.requests import ask


class StuckEngine(FakeEngine):
    def status(self) -> EngineStatus:
        return replace(super().status(), ready=False, reason="talker is stuck")


ENGINES = Engines({"tone": FakeEngine(), "tone@policy_c": StuckEngine()})


def new_sessions(max_sessions: int = 2, refused: list[str] | None = None) -> Sessions:
    return Sessions(
        ENGINES,
        VirtualClock(),
        SessionLimits(),
        max_sessions=max_sessions,
        observer=NoObserver(),
        fetch_reference=no_references,
        on_refused=([] if refused is None else refused).append,
    )


def request_of(quota: KeyQuota | None = None, query: str = "") -> web.Request:
    request = ask("GET", f"/v1/audio/speech/stream{query}")
    request[CALLER] = Caller("one", quota or KeyQuota(QuotaLimits(), VirtualClock()), None)
    return request


@asynccontextmanager
async def running(sessions: Sessions) -> AsyncIterator[tuple[FakeClient, asyncio.Task[None]]]:
    transport = FakeClient()
    async with sessions.open(request_of(), transport) as connection:
        task = asyncio.create_task(connection.run())
        try:
            yield transport, task
        finally:
            transport.disconnects()
            await task


async def use(sessions: Sessions, *, fail: bool) -> None:
    async with sessions.open(request_of(), FakeClient()):
        assert sessions.active == 1
        with pytest.raises(Overloaded, match="all 1 sessions are in use") as full:
            await sessions.open(request_of(), FakeClient()).__aenter__()
        assert full.value.retry_after_s == 5.0
        if fail:
            raise ZeroDivisionError


async def test_capacity_is_returned_at_every_kind_of_end() -> None:
    refused: list[str] = []
    sessions = new_sessions(max_sessions=1, refused=refused)
    await use(sessions, fail=False)
    with pytest.raises(ZeroDivisionError):
        await use(sessions, fail=True)
    assert sessions.active == 0
    assert refused == ["overloaded"] * 2


async def test_a_quota_counts_sessions_and_a_refused_session_does_not_count() -> None:
    sessions = new_sessions()
    quota = KeyQuota(QuotaLimits(sessions=1), VirtualClock())
    async with sessions.open(request_of(quota), FakeClient()):
        with pytest.raises(QuotaExceeded):
            await sessions.open(request_of(quota), FakeClient()).__aenter__()
        assert (sessions.active, quota.sessions) == (1, 1)
    assert quota.sessions == 0


async def test_the_url_or_the_caller_selects_the_engine() -> None:
    sessions = new_sessions()
    for query in ("?model=tone%40policy_c", "?scheduler=policy_c", "?model=tone&scheduler=policy_c"):
        with pytest.raises(NotReady, match="talker is stuck"):
            await sessions.open(request_of(query=query), FakeClient()).__aenter__()
    with pytest.raises(NotReady):
        await sessions.open(request_of(), FakeClient(), model="tone@policy_c").__aenter__()
    for query in ("", "?model=tone", "?scheduler=deadline"):
        async with sessions.open(request_of(query=query), FakeClient()):
            pass
    with pytest.raises(ModelNotFound):
        await sessions.open(request_of(query="?model=x"), FakeClient()).__aenter__()
    with pytest.raises(UnknownScheduler):
        await sessions.open(request_of(query="?scheduler=x"), FakeClient()).__aenter__()


async def test_stop_sends_the_reason_and_waits_for_the_client() -> None:
    sessions = new_sessions()
    async with running(sessions) as (transport, _task):
        stopping = asyncio.create_task(sessions.stop())
        await until(lambda: (1012, "server_stopping") in transport.received)
        assert transport.messages[-1]["code"] == "server_stopping"
        assert sessions.ending == "stopping"
        assert not stopping.done()
    await stopping
    assert sessions.active == 0


async def test_a_session_that_opens_during_the_drain_is_notified_too() -> None:
    sessions = new_sessions()
    sessions.request_begins()
    draining = asyncio.create_task(sessions.drain(60.0))
    await asyncio.sleep(0)
    assert sessions.ending == "draining"
    async with running(sessions) as (transport, task):
        await asyncio.wait_for(task, 5.0)
        assert transport.messages[-1]["type"] == "session.expiring"
        assert transport.received[-1] == (1012, "server_stopping")
    sessions.request_ends()
    await asyncio.wait_for(draining, 5.0)
