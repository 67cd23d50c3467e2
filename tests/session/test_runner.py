"""The asyncio shell: the reader never waits for speech, the writer keeps the order, every way out frees the engine."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest

from realtime_tts.audio.pcm import pcm_bytes
from realtime_tts.clock import Clock, MonotonicClock, VirtualClock
from realtime_tts.engine.api import EngineCommand, EngineEvent, EngineHandle, Submit, SynthesisRequest
from realtime_tts.engine.models import tone
from realtime_tts.errors import ServerStopping, SynthesisFailed
from realtime_tts.session.events import SentenceDone, SessionEvent
from realtime_tts.session.frontend import Frame
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.observer import SessionObserver
from realtime_tts.session.runner import SessionRunner
from realtime_tts.session.session import Command, Session
from tests.fakes import FakeClient, FakeEngine, until

CONFIG = {"type": "session.config", "response_format": "pcm", "stream_audio": True}
SOUND = tone.render(SynthesisRequest("any", "any", "Hello.", "tone_low"))
LIMITS = SessionLimits()


@dataclass
class Rig:
    client: FakeClient
    engine: FakeEngine
    connection: SessionRunner
    serving: "asyncio.Task[None]"

    def says(self, *texts: str, done: bool = True) -> None:
        for text in texts:
            self.client.says(type="input.text", text=text)
        if done:
            self.client.says(type="input.done")

    async def submitted(self, count: int) -> None:
        await until(lambda: len(self.engine.requests) == count)

    async def got(self, kind: str, count: int = 1) -> None:
        await until(lambda: self.client.kinds().count(kind) >= count)

    async def over(self) -> None:
        """The connection is over, and holds nothing any more."""
        async with asyncio.timeout(10):
            await self.serving
        assert self.engine.running == {}
        assert self.client.receiving == 0


def make_session(limits: SessionLimits = LIMITS, kind: type[Session] = Session) -> Session:
    return kind("sid", {"tone": tone.info()}, limits, now_s=MonotonicClock().now_s(), expires_at_unix_s=0.0)


def make_runner(
    client: FakeClient,
    engine: EngineHandle,
    limits: SessionLimits,
    clock: Clock,
    *,
    session: Session | None = None,
    observer: SessionObserver | None = None,
) -> SessionRunner:
    session = session or make_session(limits)
    return SessionRunner(client, {"tone": engine}, session, clock, limits, observer=observer)


@asynccontextmanager
async def rig(
    limits: SessionLimits = LIMITS, *, session: Session | None = None, engine: FakeEngine | None = None
) -> AsyncIterator[Rig]:
    before = asyncio.all_tasks()
    client, engine = FakeClient(), engine or FakeEngine()
    connection = make_runner(client, engine, limits, MonotonicClock(), session=session)
    serving = asyncio.create_task(connection.run())
    client.says(**CONFIG)
    try:
        yield Rig(client, engine, connection, serving)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        assert asyncio.all_tasks() == before, "a task was left behind"


async def test_a_sentence_goes_out_in_order_and_its_sound_is_routed_once_sent() -> None:
    async with rig() as r:
        r.says("Hello.")
        await r.submitted(1)
        r.engine.speak(0, SOUND[:1920])
        r.engine.speak(0, SOUND[1920:])
        r.engine.finish(0)
        await r.got("session.done")
        assert r.client.kinds() == [
            "session.created",
            "session.updated",
            "audio.start",
            "audio",
            "audio",
            "audio.done",
            "session.done",
        ]
        assert b"".join(each for each in r.client.sent if isinstance(each, bytes)) == pcm_bytes(SOUND)
        assert r.engine.sent_samples == {"sid/0": len(SOUND)}
        r.client.hangs_up()
        await r.over()


async def test_the_reader_never_waits_for_synthesis() -> None:
    async with rig() as r:
        r.says("One is here. Two is here. Three is here.", done=False)
        await r.submitted(2)
        r.client.says(type="session.config", voice="nobody")  # answered although nothing has been spoken
        await r.got("error")
        r.client.hangs_up()  # and so is a disconnect
        await r.over()
        assert r.engine.cancelled == ["sid/0", "sid/1"]


async def test_the_reader_never_waits_for_the_writer() -> None:
    async with rig() as r:
        await r.got("session.updated")
        r.client.reads.clear()
        r.says("One is here. Two is here. ")
        await r.submitted(2)
        r.engine.speak(0, SOUND)
        r.client.hangs_up()
        await r.over()


async def test_sound_that_is_not_sent_is_not_routed_and_brings_no_further_sentence() -> None:
    async with rig() as r:
        await r.got("session.updated")
        r.says("One is here. Two is here. Three is here.")
        await r.submitted(2)
        r.client.reads.clear()
        for number in (0, 1):
            r.engine.speak(number, SOUND)
            r.engine.finish(number)
        await asyncio.sleep(0)
        assert r.engine.sent_samples == {}
        assert len(r.engine.requests) == 2
        r.client.reads.set()
        await r.submitted(3)
        r.engine.finish(2, SynthesisFailed("boom"))
        await r.got("session.done")


async def test_a_client_who_reads_nothing_is_given_up_and_its_speech_taken_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with rig(replace(LIMITS, write_timeout_s=0.05)) as r:
        await r.got("session.updated")
        r.client.reads.clear()
        r.says("One is here. Two is here.")
        await r.submitted(2)
        r.engine.speak(0, SOUND)
        await r.over()
        assert r.client.aborted
        assert r.engine.cancelled == ["sid/0", "sid/1"]
    assert "the client does not read" in caplog.text


async def test_a_client_who_reads_slower_than_speech_is_told_and_given_up() -> None:
    class Trickle(FakeClient):
        async def send(self, frame: Frame) -> bool:
            if frame.is_binary:
                await asyncio.sleep(0.04)
            return await super().send(frame)

    client, engine, limits = Trickle(), FakeEngine(), replace(LIMITS, write_timeout_s=0.2)
    session = make_session(limits)
    serving = asyncio.create_task(make_runner(client, engine, limits, MonotonicClock(), session=session).run())
    client.says(**CONFIG)
    client.says(type="input.text", text="One is here.\n")
    await until(lambda: len(engine.requests) == 1)
    for _ in range(100):
        engine.speak(0, SOUND[:240])  # 10 ms of sound, of which each takes 40 ms to be read
    await asyncio.wait_for(serving, 10)
    assert client.messages[-1]["code"] == "slow_client"
    assert client.sent[-1] == (1008, "slow_client")
    assert engine.running == {}


async def test_a_client_who_reads_at_the_pace_of_speech_is_served_to_the_end() -> None:
    class Paced(FakeClient):
        async def send(self, frame: Frame) -> bool:
            if frame.is_binary:
                await asyncio.sleep(len(frame.data) / 48_000)
            return await super().send(frame)

    client, engine, limits = Paced(), FakeEngine(), replace(LIMITS, write_timeout_s=0.5)
    session = make_session(limits)
    serving = asyncio.create_task(make_runner(client, engine, limits, MonotonicClock(), session=session).run())
    client.says(**CONFIG)
    client.says(type="input.text", text="One is here.\n")
    client.says(type="session.close")
    await until(lambda: len(engine.requests) == 1)
    for _ in range(50):
        engine.speak(0, SOUND[:960])
    engine.finish(0)
    await asyncio.wait_for(serving, 10)
    assert client.sent[-1] == (1000, "done")
    assert len([each for each in client.sent if isinstance(each, bytes)]) == 50


@pytest.mark.parametrize(("at_once", "ttfp_ms"), [(True, 0), (False, 40)])
async def test_a_packet_counts_from_when_it_went_out_not_from_when_we_learnt_of_it(at_once: bool, ttfp_ms: int) -> None:
    clock = VirtualClock()

    class PutAside(FakeClient):
        async def send(self, frame: Frame) -> bool:
            if frame.is_binary:
                clock.advance(0.04)
            return await super().send(frame)

    client, engine = PutAside(), FakeEngine()
    client.at_once = at_once
    session = Session("sid", {"tone": tone.info()}, LIMITS, now_s=clock.now_s(), expires_at_unix_s=0.0)
    serving = asyncio.create_task(make_runner(client, engine, LIMITS, clock, session=session).run())
    client.says(**CONFIG)
    client.says(type="input.text", text="One is here.\n")
    client.says(type="session.close")
    await until(lambda: len(engine.requests) == 1)
    engine.speak(0, SOUND)
    engine.finish(0)
    await asyncio.wait_for(serving, 10)
    (done,) = (message for message in client.messages if message["type"] == "audio.done")
    assert done["metrics"]["ttfp_ms"] == pytest.approx(ttfp_ms)


async def test_what_waits_for_a_client_is_bounded() -> None:
    async with rig(replace(LIMITS, max_queued_messages=20)) as r:
        await r.got("session.updated")
        r.client.reads.clear()
        r.says("One is here.")
        await r.submitted(1)
        for _ in range(30):
            if not r.client.aborted:
                r.engine.speak(0, SOUND[:1920])
        await r.over()
        assert r.client.aborted


async def test_a_burst_of_messages_is_answered_as_it_is_read() -> None:
    """More than may wait, at once: each is answered before the next is taken, so nothing piles up."""
    async with rig(replace(LIMITS, max_queued_messages=20)) as r:
        for _ in range(200):
            r.client.says(**CONFIG)
        await r.got("session.updated", 201)
        assert not r.client.aborted


async def test_close_finishes_what_was_asked_and_says_goodbye() -> None:
    async with rig() as r:
        r.says("Hello.", done=False)
        r.client.says(type="session.close")
        await r.submitted(1)
        r.engine.speak(0, SOUND)
        r.engine.finish(0)
        await r.over()
        assert r.client.kinds()[-3:] == ["audio.done", "session.done", "close"]
        assert r.client.sent[-1] == (1000, "done")
        assert not r.client.aborted


async def test_nobody_reads_the_socket_while_it_is_closed() -> None:
    """A goodbye waits for the peer's own: two readers would take it from each other."""

    class Watched(FakeClient):
        receiving_at_close: int | None = None

        async def close(self, code: int, reason: str) -> None:
            self.receiving_at_close = self.receiving
            await super().close(code, reason)

    client, engine = Watched(), FakeEngine()
    connection = make_runner(client, engine, LIMITS, MonotonicClock())
    serving = asyncio.create_task(connection.run())
    client.says(**CONFIG)
    await until(lambda: "session.updated" in client.kinds())
    connection.end(ServerStopping("bye"))
    await asyncio.wait_for(serving, 10)
    assert client.receiving_at_close == 0
    assert client.sent[-1] == (1012, "server_stopping")


async def test_an_end_from_outside_is_told_and_frees_the_engine_at_once() -> None:
    async with rig() as r:
        r.says("Hello.")
        await r.submitted(1)
        r.engine.speak(0, SOUND)
        r.connection.end(ServerStopping("the server is stopping"))
        r.connection.end(ServerStopping("again"))
        assert r.engine.cancelled == ["sid/0"]
        await r.over()
        assert r.client.kinds()[-2:] == ["error", "close"]
        assert (r.client.messages[-1]["code"], r.client.messages[-1]["fatal"]) == ("server_stopping", True)
        assert r.client.sent[-1] == (1012, "server_stopping")


async def test_what_comes_after_the_end_is_dropped_and_does_not_hold_up_the_goodbye() -> None:
    async with rig() as r:
        await r.got("session.updated")
        r.client.reads.clear()
        r.client.incoming.put_nowait("not JSON")
        for _ in range(100):
            r.says("More. ")
        await until(r.client.incoming.empty)
        r.client.reads.set()
        await r.over()
        assert r.client.kinds()[2:] == ["error", "close"]
        assert r.engine.requests == []


async def test_idle_and_life_limits_end_a_session_with_a_reason() -> None:
    for limits in (replace(LIMITS, idle_s=0.05), replace(LIMITS, session_s=0.05)):
        async with rig(limits) as r:
            await r.over()
            assert r.client.messages[-1]["code"] == "session_expired"
            assert r.client.sent[-1] == (1001, "session_expired")


async def test_a_bug_in_deciding_ends_this_session_with_1011_and_hides_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Buggy(Session):
        def on_engine(self, event: EngineEvent, now_s: float) -> list[Command]:
            raise RuntimeError("secret")

    async with rig(
        session=Buggy("sid", {"tone": tone.info()}, LIMITS, now_s=MonotonicClock().now_s(), expires_at_unix_s=0.0)
    ) as r:
        r.says("Hello.")
        await r.submitted(1)
        r.engine.speak(0, SOUND)
        await r.over()
        assert r.client.messages[-1]["code"] == "internal_error"
        assert "secret" not in str(r.client.messages)
        assert r.client.sent[-1] == (1011, "internal_error")
    assert "secret" in caplog.text


async def test_a_bug_in_sending_ends_this_session_with_1011_too(caplog: pytest.LogCaptureFixture) -> None:
    class Buggy(Session):
        def on_event_sent(self, event: SessionEvent, now_s: float) -> list[Command]:
            if isinstance(event, SentenceDone):
                raise RuntimeError("secret")
            return super().on_event_sent(event, now_s)

    async with rig(
        session=Buggy("sid", {"tone": tone.info()}, LIMITS, now_s=MonotonicClock().now_s(), expires_at_unix_s=0.0)
    ) as r:
        r.says("Hello. Goodbye.")
        await r.submitted(2)
        r.engine.speak(0, SOUND)
        r.engine.finish(0)
        await r.over()
        assert r.client.kinds()[-2:] == ["error", "close"]
        assert r.client.sent[-1] == (1011, "internal_error")
    assert "secret" in caplog.text


async def test_an_engine_that_refuses_by_raising_ends_the_session_with_1011(caplog: pytest.LogCaptureFixture) -> None:
    class Buggy(FakeEngine):
        def send(self, command: EngineCommand, sink: object = None) -> None:
            if isinstance(command, Submit):
                raise RuntimeError("secret")

    async with rig(engine=Buggy()) as r:
        r.says("Hello.")
        await r.over()
        assert r.client.sent[-1] == (1011, "internal_error")
    assert "secret" in caplog.text


async def test_a_peer_that_is_gone_is_no_bug(caplog: pytest.LogCaptureFixture) -> None:
    async with rig() as r:
        r.says("Hello.")
        await r.submitted(1)
        r.client.aborted = True  # the next write finds the socket dead, before the reader hears of it
        r.engine.speak(0, SOUND)
        await r.over()
        assert r.engine.cancelled == ["sid/0"]
    assert caplog.text == ""


@pytest.mark.parametrize("steps", range(12))
async def test_cancelled_at_any_await_it_frees_everything(steps: int) -> None:
    async with rig() as r:
        r.says("One is here. Two is here.")
        for step in range(steps):
            await asyncio.sleep(0)
            if step == 6 and r.engine.requests:
                r.engine.speak(0, SOUND)
        r.serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await r.serving
        assert r.engine.running == {}
        assert r.client.receiving == 0


async def test_events_that_come_after_the_end_change_nothing() -> None:
    class Late(FakeEngine):
        """Its cancels take a while, as a real engine's do."""

        def _cancel(self, request_id: str) -> None:
            self.cancelled.append(request_id)

    engine = Late()
    async with rig(engine=engine) as r:
        r.says("Hello.")
        await r.submitted(1)
        r.client.hangs_up()
        await asyncio.wait_for(r.serving, 10)
        sent = len(r.client.sent)
        engine.speak(0, np.zeros(1920, np.float32))
        engine.finish(0)
        await asyncio.sleep(0)
        assert len(r.client.sent) == sent
        assert engine.cancelled == ["sid/0"]


async def test_a_keepalive_is_activity_and_nothing_else() -> None:
    clock, client, limits = VirtualClock(), FakeClient(), replace(LIMITS, idle_s=0.03)
    session = Session("sid", {"tone": tone.info()}, limits, now_s=0.0, expires_at_unix_s=0.0)
    serving = asyncio.create_task(make_runner(client, FakeEngine(), limits, clock, session=session).run())
    for _ in range(5):
        clock.advance(0.02)
        client.says(type="session.keepalive")
        await until(client.incoming.empty)
        await asyncio.sleep(0.04)  # the watch looks at the clock, and sees that there is time left
    assert client.sent == []
    assert not serving.done()
    clock.advance(0.04)
    await asyncio.wait_for(serving, 10)
    assert client.sent[-1] == (1001, "session_expired")
