"""The first half of the voice: a sentence's text becomes frames of features, all at once or a piece at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models.kokoro.cut import FRONT_OUTPUTS
from realtime_tts.engine.models.kokoro.frames import FRAME_WIDTH, Array, pack_frames, without_leading_silence
from realtime_tts.engine.models.kokoro.phonemes import Piece, Pronunciations
from realtime_tts.engine.models.kokoro.styles import Style
from realtime_tts.engine.models.kokoro.timing import WordClock
from realtime_tts.engine.stage import StageInput, StageOutput
from realtime_tts.errors import NothingToSpeak, SynthesisFailed

_PAD = 0
"""The token that opens and closes every piece."""


Read = Callable[[str, Pronunciations], list[Piece]]


@dataclass(slots=True)
class _Reading:
    """How far one request has been read."""

    pieces: list[Piece]
    words: WordClock
    done: int = 0


class FrontStage:
    """Text to frames.  One `run` reads one piece of the text; nearly every sentence is a single piece."""

    def __init__(
        self,
        session: Any,  # onnxruntime.InferenceSession, which has no types
        read: Read,
        styles: dict[str, Style],
    ) -> None:
        self._session = session
        self._read = read
        self._styles = styles
        self._readings: dict[str, _Reading] = {}

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        return [self._step(row.request) for row in batch]

    def release(self, request_id: str) -> None:
        self._readings.pop(request_id, None)

    def _step(self, request: SynthesisRequest) -> StageOutput:
        reading = self._readings.get(request.request_id)
        if reading is None:
            pieces = self._read(request.text, request.pronunciations)
            reading = self._readings[request.request_id] = _Reading(pieces, WordClock(request.text, pieces))
        if not reading.pieces:
            return _failure(NothingToSpeak("the text holds nothing that can be pronounced"))
        frames, durations = self._frames(reading.pieces[reading.done].tokens, reading.done, request)
        if not np.isfinite(frames).all():
            return _failure(SynthesisFailed("the voice model gave features that are not numbers"))
        frames = without_leading_silence(frames)
        reading.done += 1
        return StageOutput(
            values=frames,
            finished=reading.done == len(reading.pieces),
            words=reading.words.read(durations, len(frames)),
        )

    def _frames(self, tokens: Sequence[int], piece: int, request: SynthesisRequest) -> tuple[Array, list[int]]:
        """The piece's frames, and how many of them each token has."""
        # The row of n phonemes is n - 1, as in hexgrad's pipeline (`pack[len(ps) - 1]`): 510 rows for 1 to 510.
        row = len(tokens) - 1
        feed = {
            "tokens": np.array([[_PAD, *tokens, _PAD]], dtype=np.int64),
            "style": self._styles[request.voice].row(row),
            "speed": np.array([request.speed], dtype=np.float32),
        }
        features, f0, noise, durations = self._session.run(FRONT_OUTPUTS, feed)
        counts: list[int] = durations.reshape(-1).astype(np.int64).tolist()
        return pack_frames(features, f0, noise, piece=piece, style=row), counts


def _failure(error: NothingToSpeak | SynthesisFailed) -> StageOutput:
    return StageOutput(values=np.zeros((0, FRAME_WIDTH), dtype=np.float32), finished=True, error=error)
