"""Stages of the test model, which wait for their costs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models.tone.waveform import (
    CODE_LIMITS,
    FRAMES_PER_TOKEN,
    FrameMaker,
    Frames,
    TokenFrameMaker,
    answer,
    decode,
    frame_count,
    loudness_of,
    words,
)
from realtime_tts.engine.stage import Payload, StageInput, StageOutput, host_array, unpack_codes
from realtime_tts.errors import SynthesisFailed

_NO_FRAMES = np.empty((0, 3), np.int64)
TOKEN_CHARACTERS = 4
"""Characters that the Thinker writes in a step: about a token of a language model."""


@dataclass(frozen=True, slots=True)
class ToneCosts:
    """Seconds that a step takes: Talker `a0 + b0·rows + prefill·new rows`, Code2Wav `a1 + b1·Σ (frames + context)`."""

    a0_s: float = 0.0
    b0_s: float = 0.0
    prefill_s: float = 0.0
    a1_s: float = 0.0
    b1_s: float = 0.0
    context_frames: int = 0
    """Frames that Code2Wav decodes again before each chunk; paid for, though this one needs none."""


@dataclass(frozen=True, slots=True)
class ThinkerCosts:
    """Seconds that a step of the Thinker takes: `base + per_row·rows + prefill·new rows`."""

    base_s: float = 0.0
    per_row_s: float = 0.0
    prefill_s: float = 0.0


class Thinker:
    """Answers a text, a token a step for each row; its values are characters, as code points (n,)."""

    def __init__(self, costs: ThinkerCosts, wait_s: Callable[[float], None]) -> None:
        self.slots: dict[str, int] = {}
        """Characters written, by request."""
        self._costs = costs
        self._wait_s = wait_s

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        new = sum(row.request.request_id not in self.slots for row in batch)
        self._wait_s(self._costs.base_s + self._costs.per_row_s * len(batch) + self._costs.prefill_s * new)
        return [self._step(row) for row in batch]

    def release(self, request_id: str) -> None:
        self.slots.pop(request_id, None)  # absent where `run` raised before this row

    def _step(self, row: StageInput) -> StageOutput:
        start = self.slots.setdefault(row.request.request_id, 0)
        if not row.request.text_complete:
            return StageOutput(_code_points(""), starved=True)
        whole = answer(row.request.text)
        end = self.slots[row.request.request_id] = min(start + TOKEN_CHARACTERS, len(whole))
        text = whole[start:end]
        return StageOutput(_code_points(text), finished=end == len(whole), text=text)


def _code_points(text: str) -> Payload:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _text(code_points: Payload) -> str:
    return host_array(code_points).tobytes().decode("utf-32-le", "surrogatepass")


@dataclass(slots=True)
class _Row:
    frames: FrameMaker
    text: str = ""
    words_given: bool = False


class Talker:
    """A codec frame a step for each row, of the request's text or tokens, or of what a Thinker before it writes."""

    def __init__(
        self,
        costs: ToneCosts,
        wait_s: Callable[[float], None],
        *,
        after_thinker: bool,
        frames_per_token: float = FRAMES_PER_TOKEN,
    ) -> None:
        self.slots: dict[str, _Row | TokenFrameMaker] = {}
        self._frames_per_token = frames_per_token
        self._costs = costs
        self._wait_s = wait_s
        self._after_thinker = after_thinker

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        new = sum(row.request.request_id not in self.slots for row in batch)
        self._wait_s(self._costs.a0_s + self._costs.b0_s * len(batch) + self._costs.prefill_s * new)
        return [self._output(row) for row in batch]

    def release(self, request_id: str) -> None:
        self.slots.pop(request_id, None)  # absent where `run` raised before this row

    def _output(self, given: StageInput) -> StageOutput:
        try:
            return self._step(given)
        except SynthesisFailed as error:
            return StageOutput(_NO_FRAMES, finished=True, error=error)

    def _step(self, given: StageInput) -> StageOutput:
        request = given.request
        row = self.slots.get(request.request_id)
        if row is None:
            is_answer = request.ids or request.context is not None
            made = TokenFrameMaker(request.voice) if is_answer else _Row(FrameMaker(request.voice, request.speed))
            row = self.slots[request.request_id] = made
        if isinstance(row, TokenFrameMaker):
            return self._step_of_answer(row, request)
        complete = self._read(row, given)
        if not complete and row.frames.needs_text(row.text):
            return StageOutput(_NO_FRAMES, starved=True)
        resumed = self._resume(row, given) if row.frames.done == 0 else _NO_FRAMES
        new_words = words(request) if complete and not row.words_given and not self._after_thinker else ()
        row.words_given |= complete
        count = frame_count(row.text, request.speed)
        has_more = row.frames.done < count if complete else not row.frames.needs_text(row.text)
        frames = np.concatenate([resumed, row.frames.next(row.text)]) if has_more else resumed
        finished = complete and row.frames.done == count
        starved = not complete and not has_more
        return StageOutput(frames, finished, starved=starved, words=new_words, resumed_rows=len(resumed))

    def _resume(self, row: _Row, given: StageInput) -> Frames:
        """Continues behind the codes of a lost engine, which are read with the prompt."""
        if self._after_thinker or given.request.resume is None:
            return _NO_FRAMES
        frames = _resumed_frames(given.request)
        for _ in frames:
            row.frames.next(row.text)
        return frames

    def _step_of_answer(self, frames: TokenFrameMaker, request: SynthesisRequest) -> StageOutput:
        """Frame k needs token k, while there are tokens to come."""
        if frames.done >= len(request.ids) and not request.text_complete:
            return StageOutput(_NO_FRAMES, starved=True, stepped=False)
        frame = frames.next(request.ids)
        count = max(1, round(len(request.ids) * self._frames_per_token))
        return StageOutput(frame, finished=request.text_complete and frames.done >= count)

    def _read(self, row: _Row, given: StageInput) -> bool:
        """Takes in the new text; returns whether it is complete."""
        if not self._after_thinker:
            row.text = given.request.text
            return given.request.text_complete
        if given.values is not None:
            row.text += _text(given.values)
        return given.upstream_complete


def _resumed_frames(request: SynthesisRequest) -> Frames:
    """The frames that a lost engine made.  Raises SynthesisFailed for codes that it cannot have made."""
    codes = b"" if request.resume is None else request.resume.codes
    try:
        frames = unpack_codes(codes, _NO_FRAMES.shape[1])
    except ValueError:
        raise SynthesisFailed("the codes to continue from are not those of this model") from None
    too_many = request.text_complete and len(frames) > frame_count(request.text, request.speed)
    if too_many or (frames < 0).any() or (frames >= CODE_LIMITS).any():
        raise SynthesisFailed("the codes to continue from are not those of this sentence")
    return frames


class Code2Wav:
    """Decodes the frames of a chunk, and keeps each request's last loudness."""

    def __init__(self, costs: ToneCosts, wait_s: Callable[[float], None]) -> None:
        self.slots: dict[str, float] = {}
        self._costs = costs
        self._wait_s = wait_s

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        frames = sum(len(row.values) for row in batch if row.values is not None)
        self._wait_s(self._costs.a1_s + self._costs.b1_s * frames)
        return [self._decode(row) for row in batch]

    def release(self, request_id: str) -> None:
        self.slots.pop(request_id, None)  # absent where `run` raised before this row

    def _decode(self, row: StageInput) -> StageOutput:
        assert row.chunk is not None, "the last stage always gets a chunk"
        window = host_array(row.values).astype(np.int64, copy=False)
        frames = window[row.chunk.start - row.chunk.context_start :][: row.chunk.frames]
        samples = decode(frames, self.slots.get(row.request.request_id, 0.0))
        self.slots[row.request.request_id] = loudness_of(frames)
        return StageOutput(samples)
