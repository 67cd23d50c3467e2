"""The session runner: order, slow clients, errors, cancellation; every end of a session frees the engine."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from realtime_tts.audio.pcm import pcm_bytes
from realtime_tts.clock import MonotonicClock, VirtualClock
from realtime_tts.engine.api import EngineCommand, EngineEvent, Submit
from realtime_tts.errors import ServerStopping, SynthesisFailed
from realtime_tts.session.events import SentenceDone, SessionEvent
from realtime_tts.session.frontend import Frame
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.runner import SessionRunner
from realtime_tts.session.session import Command, Session
from tests.fakes import FakeClient, FakeEngine, until
from tests.session.harness import AUDIO, STREAM, make_runner, make_session

LIMITS = SessionLimits()


@dataclass
class RunningSession:
    client: FakeClient
    engine: FakeEngine
    runner: SessionRunner
    task: "asyncio.Task[None]"

    def send_text(self, *texts: str, done: bool = True) -> None:
        for text in texts:
            self.client.sends(type="input.text", text=text)
        if done:
            self.client.sends(type="input.done")

    async def wait_for_requests(self, count: int) -> None:
        await until(lambda: len(self.engine.requests) == count)

    async def wait_for(self, message_type: str, count: int = 1) -> None:
        await until(lambda: self.client.received_types().count(message_type) >= count)

    async def wait_for_end(self) -> None:
        """Waits until `run` has returned; then it must have freed everything."""
        async with asyncio.timeout(10):
            await self.task
        assert self.engine.running == {}
        assert self.client.receiving == 0


@asynccontextmanager
async def running_session(
    limits: SessionLimits = LIMITS,
    *,
    kind: type[Session] = Session,
    client: FakeClient | None = None,
    engine: FakeEngine | None = None,
) -> AsyncIterator[RunningSession]:
    before, clock = asyncio.all_tasks(), MonotonicClock()
    client, engine = client or FakeClient(), engine or FakeEngine()
    runner = make_runner(client, engine, limits, clock, session=make_session(limits, clock, kind))
    task = asyncio.create_task(runner.run())
    client.sends(**STREAM)
    try:
        yield RunningSession(client, engine, runner, task)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert asyncio.all_tasks() == before, "the runner left a task"


async def test_a_sentence_is_sent_in_order_and_its_samples_are_reported_to_the_engine() -> None:
    async with running_session() as running:
        running.send_text("Hello.")
        await running.wait_for_requests(1)
        running.engine.emit_audio(0, AUDIO[:1920])
        running.engine.emit_audio(0, AUDIO[1920:])
        running.engine.finish(0)
        await running.wait_for("session.done")
        assert running.client.received_types() == [
            "session.created",
            "session.updated",
            "audio.start",
            "audio",
            "audio",
            "audio.done",
            "session.done",
        ]
        assert b"".join(each for each in running.client.received if isinstance(each, bytes)) == pcm_bytes(AUDIO)
        assert running.engine.sent_samples == {"sid/0": len(AUDIO)}
        running.client.disconnects()
        await running.wait_for_end()


async def test_messages_and_a_disconnect_are_handled_during_synthesis() -> None:
    async with running_session() as running:
        running.send_text("One is here. Two is here. Three is here.", done=False)
        await running.wait_for_requests(2)
        running.client.sends(type="session.config", voice="unknown")
        await running.wait_for("error")
        running.client.disconnects()
        await running.wait_for_end()
        assert running.engine.cancelled == ["sid/0", "sid/1"]


async def test_messages_and_a_disconnect_are_handled_while_a_write_waits() -> None:
    async with running_session() as running:
        await running.wait_for("session.updated")
        running.client.reads.clear()
        running.send_text("One is here. Two is here. ")
        await running.wait_for_requests(2)
        running.engine.emit_audio(0, AUDIO)
        running.client.disconnects()
        await running.wait_for_end()


async def test_unsent_audio_is_not_reported_as_sent_and_no_further_sentence_is_submitted() -> None:
    async with running_session() as running:
        await running.wait_for("session.updated")
        running.send_text("One is here. Two is here. Three is here.")
        await running.wait_for_requests(2)
        running.client.reads.clear()
        for number in (0, 1):
            running.engine.emit_audio(number, AUDIO)
            running.engine.finish(number)
        await asyncio.sleep(0)
        assert running.engine.sent_samples == {}
        assert len(running.engine.requests) == 2
        running.client.reads.set()
        await running.wait_for_requests(3)
        running.engine.finish(2, SynthesisFailed("boom"))
        await running.wait_for("session.done")


# -- Slow clients ------------------------------------------------------------------------------------------------------


async def test_a_client_that_reads_nothing_is_disconnected_and_its_requests_are_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with running_session(replace(LIMITS, write_timeout_s=0.05)) as running:
        await running.wait_for("session.updated")
        running.client.reads.clear()
        running.send_text("One is here. Two is here.")
        await running.wait_for_requests(2)
        running.engine.emit_audio(0, AUDIO)
        await running.wait_for_end()
        assert running.client.aborted
        assert running.engine.cancelled == ["sid/0", "sid/1"]
    assert "the client does not read" in caplog.text


async def test_a_client_that_reads_slower_than_playback_gets_an_error_and_is_disconnected() -> None:
    class SlowClient(FakeClient):
        async def send(self, frame: Frame) -> None:
            if frame.is_binary:
                await asyncio.sleep(0.04)
            await self._write(frame.data if frame.is_binary else frame.data.decode())

    async with running_session(replace(LIMITS, write_timeout_s=0.2), client=SlowClient()) as running:
        running.send_text("One is here.\n", done=False)
        await running.wait_for_requests(1)
        for _ in range(100):
            running.engine.emit_audio(0, AUDIO[:240])  # 10 ms of audio, read in 40 ms
        await running.wait_for_end()
        assert running.client.messages[-1]["code"] == "slow_client"
        assert running.client.received[-1] == (1008, "slow_client")


async def test_a_client_that_reads_as_fast_as_playback_gets_everything() -> None:
    class RealtimeClient(FakeClient):
        async def send(self, frame: Frame) -> None:
            if frame.is_binary:
                await asyncio.sleep(len(frame.data) / 48_000)
            await self._write(frame.data if frame.is_binary else frame.data.decode())

    async with running_session(replace(LIMITS, write_timeout_s=0.5), client=RealtimeClient()) as running:
        running.send_text("One is here.\n", done=False)
        running.client.sends(type="session.close")
        await running.wait_for_requests(1)
        for _ in range(30):
            running.engine.emit_audio(0, AUDIO[:960])  # 40 ms: 1.2 s in all, more than twice the limit
        running.engine.finish(0)
        await running.wait_for_end()
        assert running.client.received[-1] == (1000, "done")
        assert len([each for each in running.client.received if isinstance(each, bytes)]) == 30


async def ttfp_ms_of_delayed_write(*, waits: bool) -> float:
    """The reported TTFP of a packet whose write returns 40 ms after it began."""
    clock = VirtualClock()

    class DelayedClient(FakeClient):
        def send(self, frame: Frame) -> Coroutine[Any, Any, None] | None:
            if not frame.is_binary:
                return super().send(frame)
            clock.advance(0.04)
            self.received.append(frame.data)
            return asyncio.sleep(0) if waits else None

    client, engine = DelayedClient(), FakeEngine()
    task = asyncio.create_task(make_runner(client, engine, LIMITS, clock).run())
    client.sends(**STREAM)
    client.sends(type="input.text", text="One is here.\n")
    client.sends(type="session.close")
    await until(lambda: len(engine.requests) == 1)
    engine.emit_audio(0, AUDIO)
    engine.finish(0)
    await asyncio.wait_for(task, 10)
    (done,) = (message for message in client.messages if message["type"] == "audio.done")
    return float(done["metrics"]["ttfp_ms"])


async def test_a_packet_counts_from_the_begin_of_its_write_unless_the_write_waits() -> None:
    assert await ttfp_ms_of_delayed_write(waits=False) == pytest.approx(0)
    assert await ttfp_ms_of_delayed_write(waits=True) == pytest.approx(40)


async def test_the_number_of_waiting_messages_is_limited() -> None:
    async with running_session(replace(LIMITS, max_queued_messages=20)) as running:
        await running.wait_for("session.updated")
        running.client.reads.clear()
        running.send_text("One is here.")
        await running.wait_for_requests(1)
        for _ in range(30):
            if not running.client.aborted:
                running.engine.emit_audio(0, AUDIO[:1920])
        await running.wait_for_end()
        assert running.client.aborted


async def test_a_burst_of_messages_does_not_exceed_the_limit_of_waiting_messages() -> None:
    """Each is answered before the next is read."""
    async with running_session(replace(LIMITS, max_queued_messages=20)) as running:
        for _ in range(200):
            running.client.sends(**STREAM)
        await running.wait_for("session.updated", 201)
        assert not running.client.aborted


# -- The end of a session ----------------------------------------------------------------------------------------------


async def test_close_finishes_earlier_text_and_then_closes() -> None:
    async with running_session() as running:
        running.send_text("Hello.", done=False)
        running.client.sends(type="session.close")
        await running.wait_for_requests(1)
        running.engine.emit_audio(0, AUDIO)
        running.engine.finish(0)
        await running.wait_for_end()
        assert running.client.received_types()[-3:] == ["audio.done", "session.done", "close"]
        assert running.client.received[-1] == (1000, "done")
        assert not running.client.aborted


async def test_the_runner_stops_reading_before_it_closes() -> None:
    """The close waits for the close frame of the peer, which a second reader would receive instead."""

    class ObservingClient(FakeClient):
        receiving_at_close: int | None = None

        async def close(self, code: int, reason: str) -> None:
            self.receiving_at_close = self.receiving
            await super().close(code, reason)

    client = ObservingClient()
    async with running_session(client=client) as running:
        await running.wait_for("session.updated")
        running.runner.end(ServerStopping("the server is stopping"))
        await running.wait_for_end()
    assert client.receiving_at_close == 0
    assert client.received[-1] == (1012, "server_stopping")


async def test_an_end_by_the_server_is_reported_once_and_cancels_requests_at_once() -> None:
    async with running_session() as running:
        running.send_text("Hello.")
        await running.wait_for_requests(1)
        running.engine.emit_audio(0, AUDIO)
        running.runner.end(ServerStopping("the server is stopping"))
        running.runner.end(ServerStopping("again"))
        assert running.engine.cancelled == ["sid/0"]
        await running.wait_for_end()
        assert running.client.received_types()[-2:] == ["error", "close"]
        last = running.client.messages[-1]
        assert (last["code"], last["fatal"]) == ("server_stopping", True)
        assert running.client.received[-1] == (1012, "server_stopping")


async def test_messages_after_the_end_are_discarded_and_do_not_delay_the_close() -> None:
    async with running_session() as running:
        await running.wait_for("session.updated")
        running.client.reads.clear()
        running.client.incoming.put_nowait("not JSON")
        for _ in range(100):
            running.send_text("More. ")
        await until(running.client.incoming.empty)
        running.client.reads.set()
        await running.wait_for_end()
        assert running.client.received_types()[2:] == ["error", "close"]
        assert running.engine.requests == []


async def test_the_idle_limit_and_the_maximum_duration_end_a_session() -> None:
    for limits in (replace(LIMITS, idle_s=0.05), replace(LIMITS, session_s=0.05)):
        async with running_session(limits) as running:
            await running.wait_for_end()
            assert running.client.messages[-1]["code"] == "session_expired"
            assert running.client.received[-1] == (1001, "session_expired")


async def test_a_keepalive_restarts_the_idle_limit_and_has_no_answer() -> None:
    clock, client, limits = VirtualClock(), FakeClient(), replace(LIMITS, idle_s=0.03)
    task = asyncio.create_task(make_runner(client, FakeEngine(), limits, clock).run())
    for _ in range(5):
        clock.advance(0.02)
        client.sends(type="session.keepalive")
        await until(client.incoming.empty)
        await asyncio.sleep(0.04)  # the watch reads the clock: the limit has not been reached
    assert client.received == []
    assert not task.done()
    clock.advance(0.04)
    await asyncio.wait_for(task, 10)
    assert client.received[-1] == (1001, "session_expired")


# -- Errors and cancellation -------------------------------------------------------------------------------------------


class FailingOnEngineEvents(Session):
    def on_engine(self, event: EngineEvent, now_s: float) -> list[Command]:
        raise RuntimeError("secret")


class FailingOnSent(Session):
    def on_event_sent(self, event: SessionEvent, now_s: float) -> list[Command]:
        if isinstance(event, SentenceDone):
            raise RuntimeError("secret")
        return super().on_event_sent(event, now_s)


class FailingEngine(FakeEngine):
    def send(self, command: EngineCommand, sink: object = None) -> None:
        if isinstance(command, Submit):
            raise RuntimeError("secret")


async def test_an_unexpected_exception_ends_the_session_with_1011_and_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for kind in (FailingOnEngineEvents, FailingOnSent):
        async with running_session(kind=kind) as running:
            running.send_text("Hello. Goodbye.")
            await running.wait_for_requests(2)
            running.engine.emit_audio(0, AUDIO)
            if kind is FailingOnSent:
                running.engine.finish(0)
            await running.wait_for_end()
            assert running.client.received_types()[-2:] == ["error", "close"], kind
            assert running.client.messages[-1]["code"] == "internal_error", kind
            assert running.client.received[-1] == (1011, "internal_error"), kind
            assert "secret" not in str(running.client.messages), kind
        assert "secret" in caplog.text, kind
        caplog.clear()


async def test_an_engine_that_raises_ends_the_session_with_1011(caplog: pytest.LogCaptureFixture) -> None:
    async with running_session(engine=FailingEngine()) as running:
        running.send_text("Hello.")
        await running.wait_for_end()
        assert running.client.received[-1] == (1011, "internal_error")
    assert "secret" in caplog.text


async def test_a_lost_connection_is_not_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    async with running_session() as running:
        running.send_text("Hello.")
        await running.wait_for_requests(1)
        running.client.aborted = True  # the next write fails, before the reader notices the disconnect
        running.engine.emit_audio(0, AUDIO)
        await running.wait_for_end()
        assert running.engine.cancelled == ["sid/0"]
    assert caplog.text == ""


async def test_a_runner_cancelled_at_any_await_frees_everything() -> None:
    for steps in range(12):
        async with running_session() as running:
            running.send_text("One is here. Two is here.")
            for step in range(steps):
                await asyncio.sleep(0)
                if step == 6 and running.engine.requests:
                    running.engine.emit_audio(0, AUDIO)
            running.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running.task
            assert running.engine.running == {}, steps
            assert running.client.receiving == 0, steps


async def test_engine_events_after_the_end_have_no_effect() -> None:
    class EngineWithDelayedCancel(FakeEngine):
        def _cancel(self, request_id: str) -> None:
            self.cancelled.append(request_id)

    engine = EngineWithDelayedCancel()
    async with running_session(engine=engine) as running:
        running.send_text("Hello.")
        await running.wait_for_requests(1)
        running.client.disconnects()
        await asyncio.wait_for(running.task, 10)
        received = len(running.client.received)
        engine.emit_audio(0, np.zeros(1920, np.float32))
        engine.finish(0)
        await asyncio.sleep(0)
        assert len(running.client.received) == received
        assert engine.cancelled == ["sid/0"]
