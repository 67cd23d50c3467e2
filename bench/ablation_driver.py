"""Ablation runs: one layer with a number of users, on an engine in this process.

Each user requests the next prompt as soon as the last one has ended.  A refused prompt is requested again after the
time that the engine states; the refusal remains a separate request.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from bench.ablation_layers import Layer, Prompt
from bench.listeners import RETRY_AFTER_S, Stopwatch
from bench.request_record import RequestRecord
from bench.summary import Outcome, Status
from realtime_tts.clock import Clock
from realtime_tts.engine.api import AudioReady, AudioSent, EndStream, EngineEvent, RequestFinished, Samples, Submit
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.scheduling.cost_model import PipelineCosts
from realtime_tts.engine.stage import Model
from realtime_tts.errors import Overloaded, SynthesisTruncated


@dataclass(frozen=True, slots=True)
class LayerRun:
    """The outcomes of the prompts with one layer and a number of users."""

    outcomes: tuple[Outcome, ...]
    """Of every request: a refused prompt has several."""
    waits_s: tuple[float, ...]
    """Of every requested prompt: from its first request to its first packet, or to the end without one."""
    prompts: int
    duration_s: float


class _ActiveRequest:
    """One request in progress."""

    def __init__(self, prompt: Prompt, record: RequestRecord, sample_rate_hz: int) -> None:
        self.prompt = prompt
        self.record = record
        self.samples = 0
        self.ended = asyncio.Event()
        self._rate_hz = sample_rate_hz

    def on_audio(self, samples: Samples, now_s: float) -> None:
        self.samples += len(samples)
        pcm = (np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()
        self.record.on_audio(pcm, self._rate_hz, now_s)

    def on_end(self, event: RequestFinished, expected: range, now_s: float) -> None:
        """`expected` is the range of lengths of a complete sentence, in samples."""
        if isinstance(event.error, Overloaded):
            self.record.refuse(event.error.message, now_s, event.error.retry_after_s)
        elif event.error is not None and not isinstance(event.error, SynthesisTruncated):
            # A model with random weights never ends by itself: there truncation is the normal end.
            self.record.fail(event.error.message, now_s)
        elif self.samples not in expected:
            self.record.fail(f"received {self.samples} of {expected[-1]} samples", now_s)
        else:
            self.record.finish(now_s)
        self.ended.set()


class LayerUsers:
    """All users of one layer, with an engine of their own; afterwards the model is free for another engine."""

    def __init__(self, model: Model, layer: Layer, clock: Clock) -> None:
        self._watch = Stopwatch(clock)
        self._model = model
        self._info = model.info
        self._layer = layer
        self._worker = EngineThread(model, self._watch, config=layer.engine)
        self._queue: deque[Prompt] = deque()
        self._first_requests: list[tuple[Prompt, float]] = []
        self._requests: list[_ActiveRequest] = []

    async def run(
        self, prompts: Sequence[Prompt], users: int, limit_s: float, stop: asyncio.Event
    ) -> tuple[LayerRun, PipelineCosts]:
        """Until all prompts are done, `limit_s` have passed or `stop` is set; with the costs of the engine's steps."""
        self._queue.extend(prompts)
        self._worker.start()
        driving = asyncio.create_task(self._drive(users))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((driving, stopping), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            duration_s = self._watch.now_s()
            costs = self._worker.status().costs or self._model.costs  # a failed engine reports none
            for request in self._requests:
                request.record.interrupt(duration_s)
            stopping.cancel()
            driving.cancel()
            with suppress(asyncio.CancelledError):
                await driving  # raises errors of the benchmark itself
            await self._worker.stop()
        outcomes = tuple(request.record.outcome() for request in self._requests)
        waits_s = tuple(self._wait_s(*first, duration_s) for first in self._first_requests)
        return LayerRun(outcomes, waits_s, len(prompts), duration_s), costs

    async def _drive(self, users: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(users):
                group.create_task(self._user())

    async def _user(self) -> None:
        while self._queue:
            prompt = self._queue.popleft()
            self._first_requests.append((prompt, self._watch.now_s()))
            await self._speak(prompt)

    async def _speak(self, prompt: Prompt) -> None:
        while True:
            record = await self._request(prompt)
            if record.status is not Status.REFUSED:
                return
            await asyncio.sleep(RETRY_AFTER_S if record.retry_after_s is None else record.retry_after_s)

    async def _request(self, prompt: Prompt) -> RequestRecord:
        now_s = self._watch.now_s()
        active = _ActiveRequest(prompt, RequestRecord(prompt.text, now_s), self._info.sample_rate_hz)
        active.record.on_sending(now_s)
        self._requests.append(active)
        request = prompt.request(f"{len(self._requests)}", self._info.default_voice or "", self._layer)
        self._worker.send(Submit(request), lambda event: self._on_event(active, request.request_id, event))
        await active.ended.wait()
        self._worker.send(EndStream(request.stream_id))
        return active.record

    def _on_event(self, active: _ActiveRequest, request_id: str, event: EngineEvent) -> None:
        now_s = self._watch.now_s()
        if active.record.ended:
            return  # interrupted by the end of the run
        if isinstance(event, AudioReady):
            active.on_audio(event.samples, now_s)
            lead_s = max(0.0, active.record.playback_end_s - now_s)
            self._worker.send(AudioSent(request_id, len(event.samples), lead_s))
        elif isinstance(event, RequestFinished):
            max_samples = active.prompt.frames * self._info.samples_per_frame
            min_samples = max_samples - self._info.silent_frames * self._info.samples_per_frame
            active.on_end(event, range(min_samples, max_samples + 1), now_s)

    def _wait_s(self, prompt: Prompt, first_request_s: float, end_s: float) -> float:
        outcomes = (request.record.outcome() for request in self._requests if request.prompt is prompt)
        starts = [outcome.intended_s + outcome.ttfp_s for outcome in outcomes if outcome.ttfp_s is not None]
        return (starts[0] if starts else end_s) - first_request_s


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
) -> tuple[LayerRun, PipelineCosts]:
    """`costs` are those learnt in an earlier run with this model."""
    known = model if costs is None else replace(model, costs=costs)
    return await LayerUsers(known, layer, clock).run(prompts, users, limit_s, stop)
