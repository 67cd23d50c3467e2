"""Helpers that run conversations through a complete model: Thinker, Talker and Code2Wav, in virtual time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from realtime_tts.engine import models
from realtime_tts.engine.api import (
    AnswerRequest,
    AudioReady,
    EngineEvent,
    RequestFinished,
    Sampling,
    SubmitAnswer,
    TextReady,
    TextSampling,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models.qwen3.codec.stage import Code2WavStage
from realtime_tts.engine.models.qwen3_omni.stages import TalkerStage
from realtime_tts.engine.models.qwen3_omni.thinker import NativeThinker
from realtime_tts.engine.stage import Model
from realtime_tts.engine.thinking.simulate import AnswerSimulation
from tests.engine.models.qwen3_omni.parts import turns

GetOmniModel: TypeAlias = Callable[[], Model]
QUEUE = EngineConfig(max_wait_s=None)
"""Without refusals: the speed of a tiny model on a busy machine says nothing about capacity."""
OPTIONS: dict[str, Any] = {"slots": 5, "max_len": 192, "thinker_max_len": 192, "predictor_kv": "cache"}
GREEDY = Sampling(temperature=0.0, max_new_tokens=12)
SPOKEN_TOKENS = 9
"""Of the answers of the goldens: the reference does not speak the last one."""


def build(directory: Path, **options: Any) -> Model:
    return models.build("qwen3_omni", model_dir=directory, **OPTIONS | options)


def ask(name: str, number: int = 0, voice: str | None = "ethan", **fields: Any) -> AnswerRequest:
    """The conversation `name` of the goldens."""
    merged: dict[str, Any] = {"text_sampling": TextSampling(max_tokens=SPOKEN_TOKENS), "sampling": GREEDY} | fields
    return AnswerRequest(f"{name} {number}", f"{name} {number}", turns(name), voice, **merged)


@dataclass(slots=True)
class Conversations:
    """Answers of a model, with the events of each request."""

    model: Model
    events: dict[str, list[EngineEvent]] = field(default_factory=dict)
    simulation: AnswerSimulation = field(init=False)
    thinker: NativeThinker = field(init=False)

    def __post_init__(self) -> None:
        answering = self.model.answering
        assert answering is not None
        thinker = answering.make_thinker()
        assert isinstance(thinker, NativeThinker)
        self.thinker = thinker
        self.simulation = AnswerSimulation(
            lambda _spend: self.model, lambda _spend: thinker, answering.chat, emit=self._on_event, config=QUEUE
        )

    def _on_event(self, event: EngineEvent) -> None:
        self.events.setdefault(event.request_id, []).append(event)

    def ask(self, request: AnswerRequest) -> None:
        self.simulation.send(SubmitAnswer(request))

    def run(self) -> None:
        self.simulation.run(1e6)

    def text(self, request_id: str) -> str:
        return "".join(event.text for event in self.events[request_id] if isinstance(event, TextReady))

    def samples(self, request_id: str) -> npt.NDArray[np.float32]:
        chunks = [event.samples for event in self.events[request_id] if isinstance(event, AudioReady)]
        return np.concatenate([np.empty(0, np.float32), *chunks])

    def end(self, request_id: str) -> RequestFinished:
        (end,) = [event for event in self.events[request_id] if isinstance(event, RequestFinished)]
        return end

    def assert_nothing_is_left(self) -> None:
        talker, decoder = self.model.stage("talker"), self.model.stage("code2wav")
        assert isinstance(talker, TalkerStage)
        assert isinstance(decoder, Code2WavStage)
        assert not talker._rows
        assert talker._talker.free_slots == decoder.decoder.arena.free == OPTIONS["slots"]
        load = self.thinker.load()
        assert (load.running, load.waiting, load.free_positions) == (0, 0, load.positions)
