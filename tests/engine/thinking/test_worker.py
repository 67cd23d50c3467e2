"""Thinker worker: steps reach the event loop, and a Thinker that fails is replaced."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from realtime_tts.clock import MonotonicClock, sleep_s
from realtime_tts.engine.api import TextEnd, TextSampling
from realtime_tts.engine.thinking import tone
from realtime_tts.engine.thinking.loop import ThinkerRequest
from realtime_tts.engine.thinking.thinker import Thinker, Written
from realtime_tts.engine.thinking.worker import ThinkerWorker
from realtime_tts.errors import EngineUnavailable, ModelNotUsable
from tests.engine.thinking.answers import turn
from tests.fakes import until


class FailingThinker(tone.ToneThinker):
    """Raises in the step that a test chooses."""

    def __init__(self) -> None:
        super().__init__(tone.ThinkerCosts(), lambda _seconds: None)
        self.fails = threading.Event()
        self.closed = False

    def step(self, max_prompt_tokens: int | None = None) -> Sequence[Written]:
        if self.fails.is_set():
            raise RuntimeError("the device is lost")
        return super().step(max_prompt_tokens)

    def close(self) -> None:
        self.closed = True
        super().close()


def request(name: str, text: str = "Hello") -> ThinkerRequest:
    return ThinkerRequest(name, tone.ToneChat().prompt((turn(text),), spoken=False).thinker, TextSampling())


@asynccontextmanager
async def running(make: Callable[[], Thinker]) -> AsyncIterator[tuple[ThinkerWorker, list[Written]]]:
    received: list[Written] = []
    subject = ThinkerWorker(make, MonotonicClock(), 0.08, first_restart_s=0.01)
    await subject.start(received.extend)
    try:
        yield subject, received
    finally:
        await subject.stop()


def ends(received: list[Written]) -> dict[str, TextEnd]:
    return {each.request_id: each.end for each in received if each.end is not None}


async def test_every_token_reaches_the_event_loop_in_order() -> None:
    async with running(FailingThinker) as (subject, received):
        for number in range(5):
            subject.submit(request(f"r{number}", "A longer text, in order to see several steps."))
        await until(lambda: len(ends(received)) == 5)
        for number in range(5):
            ids = [token for each in received if each.request_id == f"r{number}" for token in each.ids]
            assert tuple(ids) == tone.to_ids(tone.answer("A longer text, in order to see several steps."))
        await until(lambda: subject.status().open_requests == 0)


async def test_a_cancelled_request_leaves_the_thinker() -> None:
    thinkers: list[tone.ToneThinker] = []

    def make() -> Thinker:
        slow = tone.ThinkerCosts(base_s=0.002)
        thinkers.append(tone.ToneThinker(slow, sleep_s, words=lambda *_args: "x" * 30_000))
        return thinkers[-1]

    async with running(make) as (subject, received):
        subject.submit(request("r"))
        await until(lambda: bool(received))
        subject.cancel("r")
        await until(lambda: not thinkers[0].rows)
        assert not ends(received)


async def test_a_thinker_that_fails_ends_its_requests_and_is_replaced() -> None:
    thinkers: list[FailingThinker] = []

    def make() -> Thinker:
        thinkers.append(FailingThinker())
        return thinkers[-1]

    async with running(make) as (subject, received):
        thinkers[0].fails.set()
        subject.submit(request("lost"))
        await until(lambda: "lost" in ends(received))
        assert isinstance(received[-1].error, EngineUnavailable)
        await until(lambda: subject.status().ready)
        assert thinkers[0].closed
        subject.submit(request("next"))
        await until(lambda: ends(received).get("next") is TextEnd.STOP)
    assert len(thinkers) == 2


async def test_a_replacement_that_cannot_be_made_is_tried_again() -> None:
    attempts = 0

    def make() -> Thinker:
        nonlocal attempts
        attempts += 1
        if attempts in (2, 3):
            raise RuntimeError("the device is still lost")
        thinker = FailingThinker()
        if attempts == 1:
            thinker.fails.set()
        return thinker

    async with running(make) as (subject, received):
        subject.submit(request("lost"))
        await until(lambda: "lost" in ends(received))
        await until(lambda: subject.status().ready and attempts == 4)


async def test_the_start_reports_why_there_is_no_thinker() -> None:
    def make() -> Thinker:
        raise ModelNotUsable("no weights")

    subject = ThinkerWorker(make, MonotonicClock(), 0.08)
    with pytest.raises(ModelNotUsable, match="no weights"):
        await subject.start(lambda _written: None)
    assert not subject.status().ready
    await subject.stop()


async def test_a_stop_ends_what_runs() -> None:
    received: list[Written] = []
    endless = tone.ThinkerCosts(base_s=0.001)
    subject = ThinkerWorker(
        lambda: tone.ToneThinker(endless, sleep_s, words=lambda *_args: "x" * 30_000),
        MonotonicClock(),
        0.08,
    )
    await subject.start(received.extend)
    subject.submit(request("r"))
    await until(lambda: bool(received))
    await subject.stop()
    await asyncio.sleep(0)
    assert ends(received) == {"r": TextEnd.ERROR}
    assert not subject.status().ready
