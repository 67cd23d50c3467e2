"""Engine stage of the codec's decoder, which keeps the state of every stream."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from realtime_tts.engine.models.qwen3.codec.decoder import Code2Wav, Codes
from realtime_tts.engine.models.qwen3.lane_stream import LaneStream
from realtime_tts.engine.stage import StageInput, StageOutput, host_array
from realtime_tts.errors import SynthesisFailed


@dataclass(frozen=True, slots=True, eq=False)
class DecoderStart:
    """The decoder's state at the end of the recording of a cloned voice."""

    state: Tensor


class Code2WavStage:
    """Decodes each stream with its state: chunks of any size give the same samples.

    A cloned voice continues from the end of its recording.  The silence at the start of a CustomVoice is decoded like
    any other frame, so that the state is right; the engine does not play it (`ModelInfo.silent_frames`).
    """

    def __init__(self, decoder: Code2Wav, lane_stream: LaneStream) -> None:
        self.decoder = decoder
        self._lane_stream = lane_stream
        self._slots: dict[str, int] = {}

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        with self._lane_stream():
            slots = [self._slot(row) for row in batch]
            return [
                audio_output(samples) for samples in self.decoder.decode(slots, [_new_frames(row) for row in batch])
            ]

    def release(self, request_id: str) -> None:
        slot = self._slots.pop(request_id, None)  # absent if `run` raised before this row
        if slot is not None:
            self.decoder.arena.release(slot)

    def _slot(self, row: StageInput) -> int:
        """The request's decoder slot, which a new request acquires."""
        request_id = row.request.request_id
        if request_id not in self._slots:
            slot = self._slots[request_id] = self.decoder.arena.acquire()
            if isinstance(row.handoff, DecoderStart):
                self.decoder.arena.restore(slot, row.handoff.state)
        return self._slots[request_id]


def _new_frames(row: StageInput) -> Codes:
    assert row.chunk is not None, "the last stage always gets a chunk"
    return np.asarray(host_array(row.values), np.int64)[row.chunk.start - row.chunk.context_start :][: row.chunk.frames]


def audio_output(samples: npt.NDArray[np.float32]) -> StageOutput:
    """The samples of a row, or its error if they are not finite."""
    if not np.isfinite(samples).all():
        return StageOutput(samples, error=SynthesisFailed("the codec returned invalid samples for this sentence"))
    return StageOutput(samples)
