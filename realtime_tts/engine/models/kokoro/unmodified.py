"""Stages of `rewrite=false`: the exported graph as it is, a whole piece of text per run, and slices of its sound."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from realtime_tts.engine.models.kokoro.acoustic import AcousticStage, Inputs
from realtime_tts.engine.models.kokoro.frames import LEAD_IN_FRAMES, SAMPLES_PER_FRAME, Array
from realtime_tts.engine.models.kokoro.onnx_sessions import load_session
from realtime_tts.engine.models.kokoro.temporary_directory import remove_abandoned, temporary_directory
from realtime_tts.engine.models.kokoro.weights import MODEL_NAME, Weights
from realtime_tts.engine.stage import StageInput, StageOutput, host_array
from realtime_tts.errors import ModelNotUsable

_AUDIBLE_SHARE = 10 ** (-50 / 20)
"""Of a piece's peak: the level that the loudness threshold of frames.py was measured with."""


def load_unmodified(weights: Weights, *, threads: int) -> Any:
    """The exported graph in onnxruntime.  Raises ModelNotUsable where it has other inputs than Kokoro's."""
    parent, prefix = Path(tempfile.gettempdir()), "realtime_tts-"
    remove_abandoned(parent, prefix)
    with temporary_directory(parent, prefix) as directory:
        path = directory / MODEL_NAME
        weights.write_to(path)
        session = load_session(path, threads=threads)
    inputs = sorted(value.name for value in session.get_inputs())
    if inputs != ["speed", "style", "tokens"]:
        raise ModelNotUsable(f"{MODEL_NAME} is not a Kokoro-82M export: its inputs are {', '.join(inputs)}")
    return session


class WholeGraphStage(AcousticStage):
    """Text to sound.  A frame is 600 samples; the graph states no durations, so words have no times."""

    def _compute(self, inputs: Inputs, piece: int) -> tuple[Array, Sequence[int]]:
        samples = self._session.run(None, inputs)[0].reshape(-1, SAMPLES_PER_FRAME)
        return _without_leading_silence(samples), ()


def _without_leading_silence(frames: Array) -> Array:
    peaks = np.abs(frames).max(axis=1)
    audible = np.flatnonzero(peaks > _AUDIBLE_SHARE * peaks.max())
    return frames[max(0, int(audible[0]) - LEAD_IN_FRAMES) :] if len(audible) else frames


class SampleStage:
    """Frames of samples to samples, chunk by chunk."""

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        return [self._slice(row) for row in batch]

    def release(self, request_id: str) -> None:
        """Nothing to free."""

    def _slice(self, row: StageInput) -> StageOutput:
        chunk = row.chunk
        assert chunk is not None, "the last stage runs on a chunk"
        frames = host_array(row.values).astype(np.float32, copy=False)
        own = frames[chunk.start - chunk.context_start : chunk.end - chunk.context_start]
        return StageOutput(np.clip(own.reshape(-1), -1.0, 1.0), finished=chunk.final)
