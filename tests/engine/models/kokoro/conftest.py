"""The real voice, loaded once per worker (0.7 s), and a driver that runs its stages as the engine does."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pytest

from realtime_tts.engine.api import SynthesisRequest, Word
from realtime_tts.engine.models import kokoro
from realtime_tts.engine.models.kokoro.phonemes import Pronouncer, Pronouncers
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.stage import Model, StageInput, host_array

Array = npt.NDArray[np.float32]
Test = TypeVar("Test", bound=Callable[..., None])

WHOLE = ChunkPlan(sizes=(100_000,))


def real_voice(test: Test) -> Test:
    """Marks a test of the real voice: pytest-xdist runs all of them in one worker, which loads the model once."""
    marked: Test = pytest.mark.model(pytest.mark.xdist_group("kokoro")(test))
    return marked


@dataclass
class Speaker:
    """A model whose stages are run by hand, one request at a time."""

    model: Model
    request_ids: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    def request(self, text: str, voice: str = "af_heart", speed: float = 1.0) -> SynthesisRequest:
        return SynthesisRequest(f"r{next(self.request_ids)}", "listener", text, voice, speed)

    def frames(self, request: SynthesisRequest) -> Array:
        return self.frames_and_words(request)[0]

    def frames_and_words(self, request: SynthesisRequest) -> tuple[Array, list[Word]]:
        first = self.model.stage(self.model.specs[0].name)
        pieces: list[Array] = []
        words: list[Word] = []
        try:
            while True:
                output = first.run([StageInput(request)])[0]
                if output.error is not None:
                    raise output.error
                pieces.append(host_array(output.values).astype(np.float32, copy=False))
                words += output.words
                if output.finished:
                    return np.concatenate(pieces), words
        finally:
            first.release(request.request_id)

    def chunks(self, request: SynthesisRequest, frames: Array, plan: ChunkPlan) -> Iterator[Array]:
        last = self.model.stage("code2wav")
        for chunk in plan.ramp(len(frames)):
            window = frames[chunk.context_start : chunk.context_end]
            output = last.run([StageInput(request, window, chunk)])[0]
            assert output.error is None
            yield host_array(output.values).astype(np.float32, copy=False)
        last.release(request.request_id)

    def say(self, text: str, plan: ChunkPlan = WHOLE, voice: str = "af_heart", speed: float = 1.0) -> list[Array]:
        request = self.request(text, voice, speed)
        return list(self.chunks(request, self.frames(request), plan))


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def model(cache_dir: Path) -> Model:
    return kokoro.build(threads=2, cache_dir=cache_dir)


@pytest.fixture(scope="session")
def pronouncers() -> Pronouncers:
    return Pronouncers()


@pytest.fixture(scope="session")
def pronouncer(pronouncers: Pronouncers) -> Pronouncer:
    """American English."""
    return pronouncers.of("af_heart")


@pytest.fixture
def speaker(model: Model) -> Speaker:
    return Speaker(model)
