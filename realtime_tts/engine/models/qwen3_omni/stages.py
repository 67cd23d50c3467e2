"""Engine stages of Qwen3-Omni: the Talker, which speaks the tokens of an answer while they are written."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from realtime_tts.engine.api import SpokenContext, SynthesisRequest
from realtime_tts.engine.models.qwen3.byte_pairs import BytePairs
from realtime_tts.engine.models.qwen3.embeddings import Prompt
from realtime_tts.engine.models.qwen3.lane_stream import LaneStream
from realtime_tts.engine.models.qwen3.length_limits import max_frames
from realtime_tts.engine.models.qwen3.sampling import CodeSampling, code_sampling
from realtime_tts.engine.models.qwen3.talker import SlotState, Talker
from realtime_tts.engine.models.qwen3_omni.context import TalkerInputs
from realtime_tts.engine.models.qwen3_omni.prefix_cache import PrefixCache
from realtime_tts.engine.stage import StageInput, StageOutput
from realtime_tts.errors import InvalidConfig, NothingToSpeak, RealtimeTTSError

Codes = npt.NDArray[np.int64]
NO_CONTEXT = SpokenContext(np.empty(0, np.int32), key="")
"""Of text that answers nothing."""


@dataclass(slots=True)
class _Row:
    """A request that has a slot."""

    slot: int
    max_new_tokens: int
    context: SpokenContext | None
    """What to cache, until it is prefilled."""
    spoken: int = 0
    """The tokens that the Talker has received."""
    text_complete: bool = False
    frames: int = 0

    @property
    def max_frames(self) -> int:
        """With this number of frames the speech has run away.  N new tokens are N - 1 frames and the end."""
        return max(1, min(self.max_new_tokens - 1, max_frames(self.spoken)))


class TalkerStage:
    """One frame of sixteen codes per run for every row; a new row is first prefilled, one chunk per run.

    The Talker reads the user turns as soon as they are known, and the start of the answer with its first token.  Frame
    k needs token k: a row whose next token is not there is starved, and never gets padding in its place.  Speech that
    ends before its text, or does not end within its limits or its slot, is reported as truncated.  It is not retried,
    since its text has been shown.

    A request with neither tokens nor a context is text to speak: it is tokenised, and answers nothing.
    """

    def __init__(
        self,
        talker: Talker,
        inputs: TalkerInputs,
        byte_pairs: BytePairs,
        *,
        published: CodeSampling,
        max_new_tokens: int,
        prefixes: PrefixCache,
        lane_stream: LaneStream,
        draw_seed: Callable[[], int] = lambda: secrets.randbits(63),
    ) -> None:
        self._talker = talker
        self._inputs = inputs
        self._byte_pairs = byte_pairs
        self._published = published
        self._max_new_tokens = max_new_tokens
        self._prefixes = prefixes
        self._lane_stream = lane_stream
        self._draw_seed = draw_seed
        self._rows: dict[str, _Row] = {}

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        with self._lane_stream():
            errors: dict[str, RealtimeTTSError] = {}
            for given in batch:
                try:
                    self._read(given.request)
                except RealtimeTTSError as error:
                    errors[given.request.request_id] = error
            names = [given.request.request_id for given in batch]
            rows = [self._rows[name] for name in names if name in self._rows and name not in errors]
            if prefilled := self._slots_in(SlotState.PREFILL, rows):
                self._talker.prefill(prefilled)
                self._cache_contexts(rows)
            frames = self._step(self._slots_in(SlotState.READY, rows))
        return [self._output(given.request.request_id, errors, frames, set(prefilled)) for given in batch]

    def release(self, request_id: str) -> None:
        row = self._rows.pop(request_id, None)  # absent if the request was refused, or `run` raised before it
        if row is not None:
            with self._lane_stream():
                self._talker.release(row.slot)

    # -- Text ----------------------------------------------------------------------------------------------------------

    def _read(self, request: SynthesisRequest) -> None:
        """Passes what has arrived since the last run to the Talker."""
        ids, context = request.ids, request.context
        if context is None and not ids and request.text:
            ids, context = self._byte_pairs.encode(request.text.strip()), NO_CONTEXT
        if request.text_complete and not ids:
            raise NothingToSpeak("there is no text to speak")
        row = self._rows.get(request.request_id)
        if row is None:
            if context is None and not ids:
                return  # it only reserves capacity
            row = self._add(request, context or NO_CONTEXT)
        if not row.spoken and ids:
            self._talker.append_prompt(row.slot, self._inputs.answer_start(ids[0], request.voice), complete=True)
            row.spoken = 1
        if row.spoken and not row.text_complete and (len(ids) > row.spoken or request.text_complete):
            more = self._inputs.more_text(ids[row.spoken :], last=request.text_complete)
            self._talker.append_text(row.slot, more, complete=request.text_complete)
            row.spoken, row.text_complete = len(ids), request.text_complete

    def _add(self, request: SynthesisRequest, context: SpokenContext) -> _Row:
        self._inputs.speaker(request.voice)  # an unknown one is refused before it has a slot
        embeddings = self._inputs.context(context)
        positions = None
        if context.positions is not None:
            positions = torch.from_numpy(context.positions.astype(np.int64)).to(embeddings.device)
        prompt = Prompt(embeddings, embeddings[:0], text_complete=False, complete=False, positions=positions)
        requested = request.sampling
        seed = self._draw_seed() if requested.seed is None else requested.seed
        prefix = self._prefixes.find(context) if len(context.ids) else None
        row = self._rows[request.request_id] = _Row(
            slot=self._talker.add_request(prompt, code_sampling(self._published, requested, seed), prefix),
            max_new_tokens=self._max_new_tokens if requested.max_new_tokens is None else requested.max_new_tokens,
            context=context if len(context.ids) and context.key not in self._prefixes else None,
        )
        return row

    def _cache_contexts(self, rows: Sequence[_Row]) -> None:
        """Caches the contexts that are now prefilled."""
        for row in rows:
            if row.context is not None and self._talker.length(row.slot) >= len(row.context.ids):
                self._prefixes.put(row.context, self._talker.copy_prefix(row.slot, len(row.context.ids)))
                row.context = None

    # -- Stepping ------------------------------------------------------------------------------------------------------

    def _slots_in(self, state: SlotState, rows: Sequence[_Row]) -> list[int]:
        return [row.slot for row in rows if self._talker.state(row.slot) is state]

    def _step(self, slots: Sequence[int]) -> dict[int, Codes | None]:
        """The next frame (1, 16) of each slot; None if its speech has ended."""
        if not slots:
            return {}
        step = self._talker.step(slots)
        return {
            slot: None if ended else step.codes[index : index + 1]
            for index, (slot, ended) in enumerate(zip(slots, step.ended, strict=True))
        }

    def _output(
        self,
        request_id: str,
        errors: dict[str, RealtimeTTSError],
        frames: dict[int, Codes | None],
        prefilled: set[int],
    ) -> StageOutput:
        row = self._rows.get(request_id)
        if request_id in errors:
            return StageOutput(self._no_frame(), error=errors[request_id], stepped=False)
        if row is None:
            return StageOutput(self._no_frame(), starved=True, stepped=False)
        if row.slot in frames:
            output = self._after_step(row, frames[row.slot])
        else:  # still in prefill, or waiting for text
            starved = self._talker.state(row.slot) is SlotState.STARVED
            output = StageOutput(self._no_frame(), starved=starved, stepped=False)
        return replace(output, prefilled=row.slot in prefilled)

    def _after_step(self, row: _Row, frame: Codes | None) -> StageOutput:
        """The output of a row after its step; `frame` is None if its speech has ended."""
        if frame is None:
            return StageOutput(self._no_frame(), finished=True, truncated=not row.text_complete)
        row.frames += 1
        full = self._talker.state(row.slot) is SlotState.FULL
        runs_away = row.frames >= row.max_frames and (row.text_complete or row.frames >= row.max_new_tokens - 1)
        return StageOutput(frame, finished=full or runs_away, truncated=full or runs_away)

    def _no_frame(self) -> Codes:
        return np.empty((0, self._talker.codes_per_frame), np.int64)


class NoSpeechStage:
    """Refuses every request, for a model without a Talker."""

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        error = InvalidConfig("this model has no voice: it answers in text alone")
        return [StageOutput(np.empty((0, 1), np.int64), error=error, stepped=False) for _row in batch]

    def release(self, request_id: str) -> None:
        """Nothing is kept."""
