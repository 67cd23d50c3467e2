"""Answer engine: a Thinker and a speech engine as one, in threads."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest

from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.answers import AnswerEngine
from realtime_tts.engine.api import (
    AnswerRequest,
    AudioReady,
    AudioSent,
    Cancel,
    EndStream,
    EngineEvent,
    FinishReason,
    Part,
    RequestFinished,
    Submit,
    SubmitAnswer,
    TextFinished,
    TextReady,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model
from realtime_tts.engine.thinking import tone as thinking
from realtime_tts.engine.thinking.thinker import Written
from realtime_tts.engine.thinking.worker import ThinkerWorker
from realtime_tts.errors import EngineUnavailable
from tests.engine.thinking.answers import ask, audio, image, spoken
from tests.fakes import request, slots, until


class UnreliableThinker(thinking.ToneThinker):
    """Fails at one step in `fails_every`, where that is set."""

    def __init__(self, fails_every: int = 0, seed: int = 0) -> None:
        super().__init__(thinking.ThinkerCosts(), lambda _seconds: None, positions=1 << 24)
        self._fails_every = fails_every
        self._rng = random.Random(seed)

    def step(self, max_prompt_tokens: int | None = None) -> Sequence[Written]:
        if self._fails_every and not self._rng.randrange(self._fails_every):
            raise RuntimeError("the device is lost")
        return super().step(max_prompt_tokens)


class Running:
    """An answer engine and what its listeners received."""

    def __init__(self, fails_every: int = 0, config: EngineConfig | None = None) -> None:
        config = config or EngineConfig(max_wait_s=None, max_requests=4096)
        self.model: Model = tone.build(answers=True)
        self.thinkers: list[UnreliableThinker] = []
        self.speech = EngineThread(self.model, MonotonicClock(), config=config)
        frame_s, clock = self.model.info.frame_s, MonotonicClock()
        self.worker = ThinkerWorker(
            lambda: self._make(fails_every), clock, frame_s, first_restart_s=0.001, longest_restart_s=0.002
        )
        self.engine = AnswerEngine(self.worker, self.speech, thinking.ToneChat(), MonotonicClock(), config=config)
        self.events: dict[str, list[EngineEvent]] = {}

    def _make(self, fails_every: int) -> UnreliableThinker:
        self.thinkers.append(UnreliableThinker(fails_every, seed=len(self.thinkers)))
        return self.thinkers[-1]

    def ask(self, answer: AnswerRequest) -> None:
        events = self.events[answer.request_id] = []

        def sink(event: EngineEvent) -> None:
            events.append(event)
            if isinstance(event, AudioReady):
                self.engine.send(AudioSent(event.request_id, len(event.samples), 1.0))

        self.engine.send(SubmitAnswer(answer), sink)

    def end(self, name: str) -> RequestFinished | None:
        ends = [event for event in self.events[name] if isinstance(event, RequestFinished)]
        assert len(ends) <= 1
        return ends[0] if ends else None

    async def ended(self, name: str) -> RequestFinished:
        await until(lambda: self.end(name) is not None)
        end = self.end(name)
        assert end is not None
        return end

    def text(self, name: str) -> str:
        return "".join(event.text for event in self.events[name] if isinstance(event, TextReady))

    def samples(self, name: str) -> np.ndarray:
        chunks = [event.samples for event in self.events[name] if isinstance(event, AudioReady)]
        return np.concatenate(chunks) if chunks else np.zeros(0, np.float32)


@asynccontextmanager
async def running(fails_every: int = 0, config: EngineConfig | None = None) -> AsyncIterator[Running]:
    subject = Running(fails_every, config)
    subject.speech.start()
    await subject.engine.start()
    try:
        yield subject
    finally:
        await subject.engine.stop()
        await subject.speech.stop()


async def test_a_conversation_is_answered_with_text_and_audio() -> None:
    async with running() as subject:
        subject.ask(ask("r", "What is this?", image(64, 64), audio(1.4)))
        end = await subject.ended("r")
        assert end.reason is FinishReason.COMPLETE
        assert end.metrics is not None
        text = "You said: What is this? I received 1.4 s of audio. I received an image of 64 x 64 pixels."
        assert subject.text("r") == text
        np.testing.assert_array_equal(subject.samples("r"), spoken(text))
        assert sum(isinstance(event, TextFinished) for event in subject.events["r"]) == 1


async def test_a_request_for_speech_passes_to_the_speech_engine() -> None:
    async with running() as subject:
        events: list[EngineEvent] = []
        subject.engine.send(Submit(request(0)), events.append)
        await until(lambda: bool(events) and isinstance(events[-1], RequestFinished))
        assert np.concatenate([each.samples for each in events if isinstance(each, AudioReady)]).size


async def test_events_never_arrive_while_a_command_is_sent() -> None:
    async with running() as subject:
        subject.ask(AnswerRequest("r", "s", (), None))
        assert subject.events["r"] == []
        assert (await subject.ended("r")).reason is FinishReason.ERROR


async def test_a_cancel_from_within_a_sink_is_the_last_event() -> None:
    async with running() as subject:
        events: list[EngineEvent] = []

        def sink(event: EngineEvent) -> None:
            events.append(event)
            if isinstance(event, TextReady):
                subject.engine.send(Cancel("r"))

        subject.engine.send(SubmitAnswer(ask("r", "Hello " * 100)), sink)
        await until(lambda: bool(events) and isinstance(events[-1], RequestFinished))
        assert events[-1] == RequestFinished("r", FinishReason.CANCELLED)
        await until(lambda: not subject.thinkers[0].rows and slots(subject.model) == 0)


async def test_a_sink_that_raises_harms_no_other_answer() -> None:
    async with running() as subject:

        def broken(_event: EngineEvent) -> None:
            raise RuntimeError("boom")

        subject.engine.send(SubmitAnswer(ask("broken", "Hello")), broken)
        subject.ask(ask("r", "Hello"))
        assert (await subject.ended("r")).reason is FinishReason.COMPLETE


async def test_the_status_is_that_of_both() -> None:
    async with running() as subject:
        status = subject.engine.status()
        assert status.ready
        assert status.capacity is not None
        assert subject.engine.info.answers
    assert not subject.engine.status().ready


async def test_after_a_failure_of_the_thinker_the_speech_engine_continues() -> None:
    async with running(fails_every=1) as subject:
        subject.ask(ask("r", "Hello"))
        assert isinstance((await subject.ended("r")).error, EngineUnavailable)
        events: list[EngineEvent] = []
        subject.engine.send(Submit(request(0)), events.append)
        await until(lambda: bool(events) and isinstance(events[-1], RequestFinished))
        assert events[-1].reason is FinishReason.COMPLETE  # type: ignore[union-attr]


async def test_a_thinker_that_is_stuck_ends_its_answers_and_continues_later() -> None:
    released = threading.Event()
    model = tone.build(answers=True)
    assert model.answering is not None
    speech, clock = EngineThread(model, MonotonicClock()), MonotonicClock()
    thinker = thinking.ToneThinker(thinking.ThinkerCosts(base_s=0.001), lambda _seconds: assert_released(released))
    worker = ThinkerWorker(lambda: thinker, clock, model.info.frame_s, step_timeout_s=0.02)
    engine = AnswerEngine(worker, speech, thinking.ToneChat(), clock, watch_s=0.01)
    speech.start()
    await engine.start()
    events: list[EngineEvent] = []
    engine.send(SubmitAnswer(ask("r", "Hello", voice=None)), events.append)
    await until(lambda: bool(events))
    assert isinstance(events[0], RequestFinished)
    assert isinstance(events[0].error, EngineUnavailable)
    assert engine.status().reason == "the Thinker is stuck"
    released.set()
    await until(lambda: engine.status().ready and not thinker.rows)
    engine.send(SubmitAnswer(ask("next", "Hello", voice=None)), events.append)
    await until(lambda: events[-1] == RequestFinished("next", FinishReason.COMPLETE))
    await engine.stop()
    await speech.stop()


def assert_released(released: threading.Event) -> None:
    assert released.wait(20)


async def test_a_stop_ends_every_answer() -> None:
    subject = Running()
    subject.speech.start()
    await subject.engine.start()
    subject.ask(ask("r", "x" * 6000, voice=None))
    await subject.engine.stop()
    await subject.speech.stop()
    end = subject.end("r")
    assert end is not None
    assert end.reason in (FinishReason.ERROR, FinishReason.TRUNCATED)


async def mixed_answers(count: int, fails_every: int) -> None:
    """Texts, audio and images, spoken or not, cancelled at any moment, while the Thinker fails now and then."""
    rng = random.Random(1)
    async with running(fails_every) as subject:
        tasks_before = len(asyncio.all_tasks())
        threads_before = threading.active_count()
        for number in range(count):
            name, stream = f"r{number}", f"s{number % 50}"
            media: tuple[Part, ...] = rng.choice([(), (audio(0.3),), (image(40, 40),), (audio(0.2), image(33, 20))])
            voice = rng.choice(["tone_low", "tone_high", None])
            subject.ask(ask(name, "x" * rng.randrange(60), *media, voice=voice, stream=stream))
            if rng.random() < 0.3:
                delay_s = rng.random() * 0.2
                asyncio.get_running_loop().call_later(delay_s, subject.engine.send, Cancel(name))
            if not number % 20:
                await asyncio.sleep(0.002)
                await until(lambda: subject.worker.status().ready)
        await until(lambda: all(subject.end(name) is not None for name in subject.events), timeout_s=400.0)
        for listener in range(50):
            subject.engine.send(EndStream(f"s{listener}"))
        await until(lambda: subject.speech.status().active_requests == 0)
        await until(lambda: slots(subject.model) == 0)
        await until(lambda: subject.worker.status().open_requests == 0)
        await until(lambda: not subject.thinkers[-1].rows)
        assert subject.engine.is_idle
        assert len(asyncio.all_tasks()) == tasks_before
        assert threading.active_count() == threads_before
        reasons = Counter(end.reason for name in subject.events if (end := subject.end(name)) is not None)
        assert reasons[FinishReason.COMPLETE] > count / 4, reasons
        assert reasons[FinishReason.CANCELLED] > count / 50, reasons
        if fails_every:
            assert len(subject.thinkers) > 1


async def test_mixed_answers_leave_nothing_behind() -> None:
    await mixed_answers(60, fails_every=0)


@pytest.mark.slow
async def test_2000_mixed_answers_and_failing_thinkers_leave_nothing_behind() -> None:
    await mixed_answers(2000, fails_every=150)
