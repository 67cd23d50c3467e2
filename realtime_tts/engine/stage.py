"""What a model is made of: stages that turn text into codec frames, and a last one that turns frames into sound."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from realtime_tts.engine.api import ModelInfo, SynthesisRequest, Word
from realtime_tts.engine.scheduling.chunking import Chunk, ChunkPlan
from realtime_tts.engine.scheduling.cost_model import PipelineCosts
from realtime_tts.errors import RealtimeTTSError

Frames = npt.NDArray[np.generic]
"""(n, width), one row a codec frame: codes, features or hidden states, as the model likes."""


@dataclass(frozen=True, slots=True)
class StageInput:
    """One row of a batch.

    `frames` holds the upstream stage's frames: those that are new since this stage's last run, or for the last stage
    those of `[chunk.context_start, chunk.context_end)`.  The first stage gets None, and reads `request.text`.
    `upstream_complete` says that no frames follow these.
    """

    request: SynthesisRequest
    frames: Frames | None = None
    chunk: Chunk | None = None
    upstream_complete: bool = True
    retry: bool = False
    """All that this stage gave for the request is forgotten, as it said `can_retry`: it begins anew."""


@dataclass(frozen=True, slots=True)
class StageOutput:
    """What one row gave: frames `(n, width)`, or from the last stage float32 samples `(n,)` in [-1, 1].

    The last stage gives exactly `chunk.frames * samples_per_frame` samples.  `finished` (not read from the last
    stage) says that this row will give no more; `truncated` that it came to no natural end.  `error` fails this row's
    request alone.  `words` are those whose times have become known.

    What the costs of a step are learnt from: `stepped` says that the row took part in the step for which the batch was
    run, whether or not it got a frame by it; `prefilled` that some of its prompt was read in, which is dearer; and from
    the last stage `skipped_frames` how many of the chunk were not decoded, being silence.
    """

    values: npt.NDArray[np.generic]
    finished: bool = False
    truncated: bool = False
    starved: bool = False
    """It can only go on once more of its text has come; only where `request.text_complete` is False."""
    can_retry: bool = False
    """It broke off, and would begin anew if asked to (`StageInput.retry`): where nothing of it has gone on to the next
    stage, it is.  Only from the first stage."""
    stepped: bool = True
    prefilled: bool = False
    skipped_frames: int = 0
    error: RealtimeTTSError | None = None
    words: tuple[Word, ...] = ()

    def __post_init__(self) -> None:
        if self.can_retry and not self.finished:
            raise ValueError("only what has come to its end can be tried again")


class Stage(Protocol):
    """One step of the pipeline.  `run` and `release` are only ever called from its lane's thread, one at a time."""

    @property
    def name(self) -> str:
        """talker, code2wav, …: the word used in logs and metrics."""
        ...

    @property
    def lane(self) -> str:
        """The device, or share of one, that it runs on.  Stages on one lane take turns."""
        ...

    @property
    def max_batch(self) -> int: ...

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        """Advances every row by one step, in order.  What it raises fails the whole batch, and only that."""
        ...

    def release(self, request_id: str) -> None:
        """Frees what this stage holds for a request.

        Called once for every request that was in a batch here, whatever became of it: also where `run` raised.
        """
        ...


@dataclass(frozen=True, slots=True)
class Model:
    """Everything that an engine needs to know about a model: stages in order, the last one makes the sound."""

    info: ModelInfo
    stages: tuple[Stage, ...]
    chunk_plan: ChunkPlan
    costs: PipelineCosts
    """What its steps are believed to cost before any was measured."""
    nominal_streams: int = 64
    """The places of the published load table, by which the fixed-size policies choose the initial chunk."""
    slots: int | None = None
    """How many requests its stages have room for at once, where that is bounded: one more begins when one has ended."""

    def __post_init__(self) -> None:
        if self.slots is not None and self.slots < 1:
            raise ValueError(f"a model needs a slot at least, got {self.slots}")
        if len(self.stages) < 2:
            raise ValueError("a model needs a stage that makes frames and one that makes sound")
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise ValueError(f"stage names must differ, got {names}")
