"""The decoder's stage gives a request the samples of its frames, and reports invalid ones."""

import pytest

pytest.importorskip("torch")

import itertools

import numpy as np
import torch

from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models.qwen3.codec.stage import Code2WavStage, audio_output
from realtime_tts.engine.models.qwen3.lane_stream import LaneStream
from realtime_tts.engine.scheduling.chunking import Chunk
from realtime_tts.engine.stage import StageInput
from tests.engine.models.qwen3_tts.decoders import make_decoder
from tests.engine.models.qwen3_tts.make_codec import DECODER, decoder_shapes, draw, strip


def test_two_chunks_are_the_samples_of_the_whole_and_a_release_frees_the_slot() -> None:
    decoder = make_decoder(DECODER, strip(draw(decoder_shapes(DECODER), seed=0), "decoder."), 1)
    stage = Code2WavStage(decoder, LaneStream(torch.device("cpu")))
    codes = np.random.default_rng(0).integers(0, DECODER["codebook_size"], (5, 16))

    def run(name: str, *bounds: int) -> np.ndarray:
        request = SynthesisRequest(name, "s", "text", "voice")
        parts = []
        for start, end in itertools.pairwise(bounds):
            (output,) = stage.run([StageInput(request, codes[start:end], Chunk(start, end, start, end, end == 5))])
            parts.append(np.asarray(output.values))
        stage.release(name)
        return np.concatenate(parts)

    whole, parts = run("a", 0, 5), run("b", 0, 2, 5)
    np.testing.assert_allclose(parts, whole, atol=1e-6)
    assert decoder.arena.free == 1


def test_samples_that_are_not_finite_are_an_error() -> None:
    assert audio_output(np.zeros(3, np.float32)).error is None
    assert audio_output(np.array([0, np.nan], np.float32)).error is not None
