"""Acoustic stage: a sentence's text to frames of features, one piece of text per run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models.kokoro.frames import FRAME_WIDTH, Array, pack_frames, without_leading_silence
from realtime_tts.engine.models.kokoro.onnx_rewrite.split_graph import ACOUSTIC_OUTPUTS
from realtime_tts.engine.models.kokoro.phonemes import Piece, Pronunciations
from realtime_tts.engine.models.kokoro.styles import Style, style_row
from realtime_tts.engine.models.kokoro.word_timestamps import WordTimestamps
from realtime_tts.engine.stage import StageInput, StageOutput
from realtime_tts.errors import NothingToSpeak, SynthesisFailed

_PAD = 0
"""The token that opens and closes every piece."""

Read = Callable[[str, Pronunciations, str], list[Piece]]
"""Reads a text with its own pronunciations for a voice."""
Inputs = dict[str, npt.NDArray[Any]]


def text_inputs(tokens: Sequence[int], style: Style, speed: float = 1.0) -> Inputs:
    """The inputs of the acoustic graph, and of the unmodified one, for a piece of text."""
    return {
        "tokens": np.array([[_PAD, *tokens, _PAD]], dtype=np.int64),
        "style": style.row(style_row(len(tokens))),
        "speed": np.array([speed], dtype=np.float32),
    }


@dataclass(slots=True)
class _Progress:
    """The pieces of one request, and how many of them are computed."""

    pieces: list[Piece]
    words: WordTimestamps
    done: int = 0


class AcousticStage:
    """Text to frames.  One `run` computes one piece of the text; nearly every sentence is a single piece."""

    def __init__(
        self,
        session: Any,  # onnxruntime.InferenceSession, which has no types
        read: Read,
        styles: Mapping[str, Style],
    ) -> None:
        self._session = session
        self._read = read
        self._styles = styles
        self._progress: dict[str, _Progress] = {}

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        return [self._step(row.request) for row in batch]

    def release(self, request_id: str) -> None:
        self._progress.pop(request_id, None)

    def _step(self, request: SynthesisRequest) -> StageOutput:
        progress = self._progress.get(request.request_id)
        if progress is None:
            pieces = self._read(request.text, request.pronunciations, request.voice)
            progress = self._progress[request.request_id] = _Progress(pieces, WordTimestamps(request.text, pieces))
        if not progress.pieces:
            return _failure(NothingToSpeak("the text holds nothing that can be pronounced"))
        inputs = text_inputs(progress.pieces[progress.done].tokens, self._styles[request.voice], request.speed)
        frames, durations = self._compute(inputs, progress.done)
        if not np.isfinite(frames).all():
            return _failure(SynthesisFailed("the voice model computed values that are not finite"))
        progress.done += 1
        return StageOutput(
            values=frames,
            finished=progress.done == len(progress.pieces),
            words=progress.words.add_piece(durations, len(frames)) if durations else (),
        )

    def _compute(self, inputs: Inputs, piece: int) -> tuple[Array, Sequence[int]]:
        """The frames of a piece without its leading silence, and how many frames each token has (before that)."""
        features, f0, noise, durations = self._session.run(ACOUSTIC_OUTPUTS, inputs)
        style = style_row(inputs["tokens"].size - 2)
        frames = pack_frames(features, f0, noise, piece=piece, style=style)
        return without_leading_silence(frames), durations.reshape(-1).astype(np.int64).tolist()


def _failure(error: NothingToSpeak | SynthesisFailed) -> StageOutput:
    return StageOutput(values=np.zeros((0, FRAME_WIDTH), dtype=np.float32), finished=True, error=error)
