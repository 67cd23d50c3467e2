"""One real voice for all of these tests (0.7 s to load), and a few words to drive its stages as the engine would."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from realtime_tts.engine.api import SynthesisRequest, Word
from realtime_tts.engine.models import kokoro
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.stage import Model, StageInput, host_array
from realtime_tts.errors import RealtimeTTSError

Array = npt.NDArray[np.float32]

WHOLE = ChunkPlan(sizes=(100_000,))


@dataclass
class Speaker:
    """A model driven by hand, one request at a time."""

    model: Model
    request_ids: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    def request(self, text: str, voice: str = "af_heart", speed: float = 1.0) -> SynthesisRequest:
        return SynthesisRequest(f"r{next(self.request_ids)}", "listener", text, voice, speed)

    def frames(self, request: SynthesisRequest) -> Array:
        return self.read(request)[0]

    def read(self, request: SynthesisRequest) -> tuple[Array, list[Word]]:
        front = self.model.stage("front")
        pieces: list[Array] = []
        words: list[Word] = []
        while True:
            output = front.run([StageInput(request)])[0]
            if output.error is not None:
                raise output.error
            pieces.append(host_array(output.values).astype(np.float32, copy=False))
            words += output.words
            if output.finished:
                front.release(request.request_id)
                return np.concatenate(pieces), words

    def chunks(self, request: SynthesisRequest, frames: Array, plan: ChunkPlan) -> Iterator[Array]:
        vocoder = self.model.stage("code2wav")
        for chunk in plan.ramp(len(frames)):
            window = frames[chunk.context_start : chunk.context_end]
            output = vocoder.run([StageInput(request, window, chunk)])[0]
            assert output.error is None
            yield host_array(output.values).astype(np.float32, copy=False)
        vocoder.release(request.request_id)

    def say(self, text: str, plan: ChunkPlan = WHOLE, voice: str = "af_heart", speed: float = 1.0) -> list[Array]:
        request = self.request(text, voice, speed)
        return list(self.chunks(request, self.frames(request), plan))

    def error(self, text: str) -> RealtimeTTSError | None:
        return self.model.stage("front").run([StageInput(self.request(text))])[0].error


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def model(cache_dir: Path) -> Model:
    return kokoro.build(threads=2, cache_dir=cache_dir)


@pytest.fixture
def speaker(model: Model) -> Speaker:
    return Speaker(model)
