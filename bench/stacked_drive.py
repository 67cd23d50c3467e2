"""One layer, one number of users: every prompt is asked of an engine in this process, and heard to its end.

Each user asks for the next prompt as soon as the last one has ended.  Who is refused comes again with the same prompt
after the time that the engine named; the refusal stays a request of its own, that was refused.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from bench.listeners import RETRY_AFTER_S, Stopwatch
from bench.stacked_layers import Layer, Prompt
from bench.summary import Outcome, Status
from bench.take import Take
from realtime_tts.clock import Clock
from realtime_tts.engine.api import AudioReady, AudioSent, EndStream, EngineEvent, RequestFinished, Samples, Submit
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.scheduling.cost_model import PipelineCosts
from realtime_tts.engine.stage import Model
from realtime_tts.errors import Overloaded, SynthesisTruncated


@dataclass(frozen=True, slots=True)
class Cell:
    """What became of the prompts under one layer, with so many users."""

    outcomes: tuple[Outcome, ...]
    """Of every request: a prompt that was refused and came again has several."""
    waits_s: tuple[float, ...]
    """Of every prompt that was asked: from the first time to its first packet, or to the end where none came."""
    prompts: int
    duration_s: float


class _Ask:
    """A request on its way through the engine."""

    def __init__(self, prompt: Prompt, take: Take, sample_rate_hz: int) -> None:
        self.prompt = prompt
        self.take = take
        self.samples = 0
        self.over = asyncio.Event()
        self._rate_hz = sample_rate_hz

    def on_audio(self, samples: Samples, now_s: float) -> None:
        self.samples += len(samples)
        pcm = (np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()
        self.take.on_audio(pcm, self._rate_hz, now_s)

    def on_end(self, event: RequestFinished, expected: range, now_s: float) -> None:
        """`expected` is how many samples a whole sentence may have."""
        if isinstance(event.error, Overloaded):
            self.take.refuse(event.error.message, now_s, event.error.retry_after_s)
        elif event.error is not None and not isinstance(event.error, SynthesisTruncated):
            self.take.fail(event.error.message, now_s)
        elif self.samples not in expected:  # ended by its bound is how a random model ends; elsewhere, it is not
            self.take.fail(f"{self.samples} samples came, of {expected[-1]}", now_s)
        else:
            self.take.finish(now_s)
        self.over.set()


class Crowd:
    """Drives an engine of its own once; the model is free for another when that is done."""

    def __init__(self, model: Model, layer: Layer, clock: Clock) -> None:
        self._watch = Stopwatch(clock)
        self._model = model
        self._info = model.info
        self._layer = layer
        self._worker = EngineThread(model, self._watch, config=layer.engine)
        self._waiting: deque[Prompt] = deque()
        self._asked: list[tuple[Prompt, float]] = []
        self._asks: list[_Ask] = []

    async def run(
        self, prompts: Sequence[Prompt], users: int, limit_s: float, stop: asyncio.Event
    ) -> tuple[Cell, PipelineCosts]:
        """Until all were heard, `limit_s` have passed or `stop` is set; and what the engine's steps cost by then."""
        self._waiting.extend(prompts)
        self._worker.start()
        driving = asyncio.create_task(self._drive(users))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((driving, stopping), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            duration_s = self._watch.now_s()
            costs = self._worker.status().costs or self._model.costs  # an engine that has failed knows none
            for ask in self._asks:
                ask.take.cut(duration_s)
            stopping.cancel()
            driving.cancel()
            with suppress(asyncio.CancelledError):
                await driving  # raises what went wrong in the bench itself
            await self._worker.stop()
        outcomes = tuple(ask.take.outcome() for ask in self._asks)
        waits_s = tuple(self._wait_s(*asked, duration_s) for asked in self._asked)
        return Cell(outcomes, waits_s, len(prompts), duration_s), costs

    async def _drive(self, users: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(users):
                group.create_task(self._user())

    async def _user(self) -> None:
        while self._waiting:
            prompt = self._waiting.popleft()
            self._asked.append((prompt, self._watch.now_s()))
            await self._hear(prompt)

    async def _hear(self, prompt: Prompt) -> None:
        while True:
            take = await self._ask(prompt)
            if take.status is not Status.REFUSED:
                return
            await asyncio.sleep(RETRY_AFTER_S if take.retry_after_s is None else take.retry_after_s)

    async def _ask(self, prompt: Prompt) -> Take:
        now_s = self._watch.now_s()
        ask = _Ask(prompt, Take(prompt.text, now_s), self._info.sample_rate_hz)
        ask.take.on_sending(now_s)
        self._asks.append(ask)
        request = prompt.request(f"{len(self._asks)}", self._info.default_voice or "", self._layer)
        self._worker.send(Submit(request), lambda event: self._on_event(ask, request.request_id, event))
        await ask.over.wait()
        self._worker.send(EndStream(request.stream_id))
        return ask.take

    def _on_event(self, ask: _Ask, request_id: str, event: EngineEvent) -> None:
        now_s = self._watch.now_s()
        if ask.take.ended:
            return  # cut; what still comes is too late
        if isinstance(event, AudioReady):
            ask.on_audio(event.samples, now_s)
            self._worker.send(AudioSent(request_id, len(event.samples), max(0.0, ask.take.heard_until_s - now_s)))
        elif isinstance(event, RequestFinished):
            most = ask.prompt.frames * self._info.samples_per_frame
            least = most - self._info.silent_frames * self._info.samples_per_frame
            ask.on_end(event, range(least, most + 1), now_s)

    def _wait_s(self, prompt: Prompt, first_asked_s: float, end_s: float) -> float:
        heard = (ask.take.outcome() for ask in self._asks if ask.prompt is prompt)
        starts = [outcome.intended_s + outcome.ttfp_s for outcome in heard if outcome.ttfp_s is not None]
        return (starts[0] if starts else end_s) - first_asked_s


async def drive(
    model: Model,
    layer: Layer,
    clock: Clock,
    prompts: Sequence[Prompt],
    *,
    users: int,
    limit_s: float,
    stop: asyncio.Event,
    costs: PipelineCosts | None = None,
) -> tuple[Cell, PipelineCosts]:
    """`costs` are those that an earlier run with this model has learnt."""
    known = model if costs is None else replace(model, costs=costs)
    return await Crowd(known, layer, clock).run(prompts, users, limit_s, stop)
