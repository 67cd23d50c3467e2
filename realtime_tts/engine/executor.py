"""Executors: batches on their way to the stages and back.  The executor owns the objects that compute."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from realtime_tts.engine.stage import Model, StageInput, StageOutput


@dataclass(frozen=True, slots=True)
class Launch:
    """A batch for a stage on one of its lanes."""

    stage: str
    lane: str
    inputs: tuple[StageInput, ...]


@dataclass(frozen=True, slots=True)
class Completion:
    """The result of a launch: an output for each input, or the exception of the stage."""

    launch: Launch
    outputs: Sequence[StageOutput]
    error: Exception | None = None


class Executor(Protocol):
    def launch(self, launch: Launch) -> None:
        """Starts a batch; the engine never has two in flight on one lane."""
        ...

    def release(self, stage: str, lane: str, request_id: str) -> None:
        """Frees what a stage keeps for a request, on its lane, after the batch that runs there now."""
        ...

    def completed(self) -> list[Completion]:
        """Batches that have finished since the last call."""
        ...

    def close(self) -> None: ...


def run(model: Model, launch: Launch) -> Completion:
    """Runs a batch in this thread.  The one place that catches what a model raises: it fails its batch."""
    try:
        return Completion(launch, model.stage(launch.stage, launch.lane).run(launch.inputs))
    except Exception as error:
        return Completion(launch, (), error)


class InlineExecutor:
    """Runs each batch at once in the caller's thread: for tests and tools, where nothing else waits."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._completed: deque[Completion] = deque()

    def launch(self, launch: Launch) -> None:
        self._completed.append(run(self._model, launch))

    def release(self, stage: str, lane: str, request_id: str) -> None:
        self._model.stage(stage, lane).release(request_id)

    def completed(self) -> list[Completion]:
        completed = list(self._completed)
        self._completed.clear()
        return completed

    def close(self) -> None:
        self._completed.clear()
