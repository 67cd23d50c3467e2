"""Stages of a model: their descriptions, their inputs and outputs, and the pipeline that they form."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from realtime_tts.engine.api import ModelInfo, SynthesisRequest, Word
from realtime_tts.engine.scheduling.chunking import Chunk, ChunkPlan
from realtime_tts.engine.scheduling.cost_model import PipelineCosts
from realtime_tts.engine.scheduling.load import StageLane
from realtime_tts.engine.thinking.thinker import Answering
from realtime_tts.errors import RealtimeTTSError


class Payload(Protocol):
    """What a stage passes to the next: a row for each of its units, such as a codec frame or a token of text.

    The engine counts, slices and joins the rows; it never reads them.  A host array is a payload, and so is a tensor on
    a device: hidden states need not cross the host.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> "Payload": ...


def host_array(payload: Payload | None) -> npt.NDArray[np.generic]:
    """The payload, which must be an array on the host."""
    assert isinstance(payload, np.ndarray), f"expected an array on the host, got {type(payload).__name__}"
    return payload


def pack_codes(payload: Payload) -> bytes:
    """Codec frames (n, codebooks) as bytes, 2 for each code."""
    return host_array(payload).astype("<i2").tobytes()


def unpack_codes(codes: bytes, codebooks: int) -> npt.NDArray[np.int64]:
    """(n, codebooks).  Raises ValueError for codes of another model."""
    return np.frombuffer(codes, "<i2").reshape(-1, codebooks).astype(np.int64)


def join_arrays(parts: Sequence[Payload]) -> Payload:
    return np.concatenate([host_array(part) for part in parts])


@dataclass(frozen=True, slots=True)
class StageSpec:
    """What the engine knows of a stage.  The object that computes is behind the executor."""

    name: str
    """talker, code2wav, …: the word used in logs and metrics."""
    lane: str
    """The device, or share of one, that it runs on.  Stages on one lane run one at a time."""
    max_batch: int = 1
    replicas: int = 1
    """Lanes with an own object each.  A request stays with the lane on which it began."""
    slots: int | None = None
    """Requests that each replica has room for; None has no limit."""
    self_batching: bool = False
    """It forms its own batches: it gets every request that is ready, and `max_batch` does not apply."""
    join: Callable[[Sequence[Payload]], Payload] = join_arrays
    """Concatenates payloads of its output."""

    def __post_init__(self) -> None:
        for name, value in (("max_batch", self.max_batch), ("replicas", self.replicas), ("slots", self.slots)):
            if value is not None and value < 1:
                raise ValueError(f"{name} of stage {self.name} must be at least 1, got {value}")

    @property
    def lanes(self) -> tuple[str, ...]:
        if self.replicas == 1:
            return (self.lane,)
        return tuple(f"{self.lane}-{number}" for number in range(self.replicas))


@dataclass(frozen=True, slots=True)
class StageInput:
    """One row of a batch.

    `values` are from the stage before: those that are new since this stage's last run (None where there are none), or
    for the last stage the frames `[chunk.context_start, chunk.context_end)`.  The first stage gets none, and reads
    `request.text`.  `upstream_complete` says that no values follow these.
    """

    request: SynthesisRequest
    values: Payload | None = None
    chunk: Chunk | None = None
    upstream_complete: bool = True
    handoff: object | None = None
    """The latest `StageOutput.handoff` of the stage before."""
    retry: bool = False
    """The stage restarts this request, as its `can_retry` offered: its output so far is dropped, and `values` are all
    rows so far."""


@dataclass(frozen=True, slots=True)
class StageOutput:
    """The output for one row: a row of `values` for each unit, or from the last stage float32 samples (n,) in [-1, 1].

    The last stage returns exactly `chunk.frames * samples_per_frame` samples, as a host array.  `finished` (not read
    from the last stage): this row has no further output.  `truncated`: it ended before the natural end.  `error`
    fails this row's request alone.  `words` are those whose times have become known, `text` is what a Thinker has
    written: both go to the client as events.

    The costs of a launch are fitted with: `stepped`, whether the row took part in the step for which the batch was run,
    even without output; `prefilled`, whether some of its prompt was read, which costs more; and from the
    last stage `skipped_frames`, how many of the chunk were not decoded, being silence.
    """

    values: Payload
    finished: bool = False
    truncated: bool = False
    starved: bool = False
    """It can continue only with more input: of the first stage more of the text, where `request.text_complete` is
    False; of others more values from the stage before."""
    can_retry: bool = False
    """It ended too early, and can restart on request (`StageInput.retry`), which it gets only if the next stage has
    received none of its output.  Not after an output of `text`."""
    stepped: bool = True
    prefilled: bool = False
    skipped_frames: int = 0
    resumed_rows: int = 0
    """Leading rows of `values` that it has from `request.resume.codes`, and did not make."""
    error: RealtimeTTSError | None = None
    words: tuple[Word, ...] = ()
    text: str = ""
    handoff: object | None = None
    """What the next stage must know of this request: a frozen value, which replaces the one before."""

    def __post_init__(self) -> None:
        if self.can_retry and not self.finished:
            raise ValueError("only a row that has finished can be retried")


class Stage(Protocol):
    """The object that computes a stage.  Its methods are called only from its lane's thread, one at a time."""

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        """Advances every row by one step, in order.  An exception fails the whole batch, and nothing else."""
        ...

    def release(self, request_id: str) -> None:
        """Frees what this stage keeps for a request.

        Called once for every request that was in a batch here, however it ended: also where `run` raised.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A pipeline of stages.  The last one makes the samples from the codec frames of the one before, the frame stage.

    Stages before the frame stage, such as a Thinker, need an entry each in `costs.upstream`.
    """

    info: ModelInfo
    specs: tuple[StageSpec, ...]
    """In pipeline order."""
    stages: Mapping[str, tuple[Stage, ...]]
    """By the stage's name: the objects that compute, one for each replica.  Executors alone call them."""
    chunk_plan: ChunkPlan
    costs: PipelineCosts
    """The prior of the cost model, before any launch was measured."""
    nominal_streams: int = 64
    """The streams at which the fixed-size policies count the engine as full, when they choose the initial chunk."""
    answering: Answering | None = None
    """For a model that answers a conversation: the Thinker in front of the stages."""

    def __post_init__(self) -> None:
        names = [spec.name for spec in self.specs]
        if len(names) < 2:
            raise ValueError("a model needs a stage that makes frames and one that makes samples")
        if len(set(names)) != len(names):
            raise ValueError(f"stage names must differ, got {names}")
        if {name: len(objects) for name, objects in self.stages.items()} != {s.name: s.replicas for s in self.specs}:
            raise ValueError(f"a model needs an object for each replica of each of its stages: {names}")
        if [each.stage for each in self.costs.upstream] != names[:-2]:
            raise ValueError(f"costs.upstream must have the stages before the frame stage: {names[:-2]}")
        if len({(spec.lane, spec.replicas) for spec in self.specs}) != len({spec.lane for spec in self.specs}):
            raise ValueError("stages that share a lane must have the same number of replicas")

    @property
    def lanes(self) -> tuple[str, ...]:
        """Of all stages, each once, in pipeline order."""
        return tuple(dict.fromkeys(lane for spec in self.specs for lane in spec.lanes))

    @property
    def stage_lanes(self) -> tuple[StageLane, ...]:
        """For the scheduling rules."""
        return tuple(StageLane(spec.lane, spec.replicas) for spec in self.specs)

    def stage(self, name: str, lane: str | None = None) -> Stage:
        """The object of a stage on one of its lanes; None is the first."""
        spec = next(spec for spec in self.specs if spec.name == name)
        return self.stages[name][0 if lane is None else spec.lanes.index(lane)]
