"""Tests of the vocoder stage: chunks join without a gap, an overlap or a click, and a request's state is freed."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models.kokoro.frames import pack_frames
from realtime_tts.engine.models.kokoro.onnx_rewrite.generator import SPANS
from realtime_tts.engine.models.kokoro.onnx_rewrite.split_graph import TEXT_FEATURES
from realtime_tts.engine.models.kokoro.styles import load_styles
from realtime_tts.engine.models.kokoro.vocoder import VocoderStage
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.stage import StageInput, host_array
from realtime_tts.errors import SynthesisFailed

STYLES = load_styles()
Array = npt.NDArray[np.float32]


class FakeSession:
    """Every frame becomes 600 samples of its first feature, so that a sample identifies its frame."""

    def __init__(self) -> None:
        self.windows: list[int] = []
        self.spans: list[list[int]] = []

    def run(self, outputs: list[str], inputs: dict[str, Array]) -> list[Array]:
        features = inputs[TEXT_FEATURES]
        start, end = inputs[SPANS][2:].tolist()
        self.windows.append(features.shape[2])
        self.spans.append(inputs[SPANS].tolist())
        return [np.repeat(features[0, 0, start:end], 600)]


def ramp(frames: int, *, first: int = 0, total: int = 1000, piece: int = 0, silent: Sequence[int] = ()) -> Array:
    features = np.zeros((1, 512, frames), dtype=np.float32)
    features[0, 0] = (first + np.arange(frames)) / total
    pair = np.zeros((1, 2 * frames), dtype=np.float32)
    loudness = np.where(np.isin(np.arange(frames), silent), -9.0, 0.0).astype(np.float32)
    return pack_frames(features, pair, loudness.repeat(2)[None], piece=piece, style=3)


def stream(stage: VocoderStage, frames: Array, plan: ChunkPlan) -> list[Array]:
    request = SynthesisRequest("r", "s", "", "af_heart")
    out: list[Array] = []
    for chunk in plan.ramp(len(frames)):
        window = frames[chunk.context_start : chunk.context_end]
        out.append(host_array(stage.run([StageInput(request, window, chunk)])[0].values).astype(np.float32))
        assert len(out[-1]) == chunk.frames * 600
    return out


plans = st.builds(
    ChunkPlan,
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4).map(tuple),
    left_context_frames=st.integers(0, 8),
    right_context_frames=st.integers(0, 8),
)


@settings(max_examples=40)
@given(plans, st.lists(st.integers(1, 15), min_size=1, max_size=4))
def test_any_chunks_of_any_pieces_give_every_frame_once_in_order(plan: ChunkPlan, pieces: list[int]) -> None:
    starts = np.cumsum([0, *pieces])[:-1]
    frames = np.concatenate(
        [ramp(n, first=int(s), piece=i) for i, (n, s) in enumerate(zip(pieces, starts, strict=True))]
    )
    session = FakeSession()
    sound = np.concatenate(stream(VocoderStage(session, STYLES), frames, plan))
    np.testing.assert_allclose(sound, np.repeat(np.arange(sum(pieces)) / 1000, 600), atol=1e-6)
    assert max(session.windows) <= max(pieces)  # no window holds two pieces


def test_each_part_gets_the_context_that_it_uses_and_no_frame_beyond_the_window() -> None:
    session = FakeSession()
    stream(
        VocoderStage(session, STYLES), ramp(30), ChunkPlan(sizes=(10,), left_context_frames=8, right_context_frames=2)
    )
    assert session.windows == [12, 20, 18]
    assert session.spans == [[0, 12, 0, 11], [5, 20, 7, 19], [5, 18, 7, 18]]


def test_a_chunk_is_cross_faded_with_the_tail_of_the_one_before() -> None:
    stage = VocoderStage(FakeSession(), STYLES)
    plan = ChunkPlan(sizes=(2,), right_context_frames=1)
    request = SynthesisRequest("r", "s", "", "af_heart")
    quiet, loud = ramp(4, total=10**9), ramp(4, first=1, total=2)
    first, second = plan.ramp(4)
    stage.run([StageInput(request, quiet[:3], first)])
    joined = host_array(stage.run([StageInput(request, np.clip(loud[2:], 0, 0.5), second)])[0].values)
    assert joined[0] == pytest.approx(0, abs=1e-6)
    assert np.all(np.diff(joined[:240].astype(np.float64)) >= 0)
    assert np.abs(np.diff(joined.astype(np.float64))).max() < 0.05


def test_silence_at_both_ends_of_a_chunk_is_not_decoded() -> None:
    session = FakeSession()
    frames = ramp(20, first=100, silent=[*range(5), *range(12, 20)])
    plan = ChunkPlan(sizes=(15, 5), left_context_frames=8, right_context_frames=5)
    request = SynthesisRequest("r", "s", "", "af_heart")
    stage = VocoderStage(session, STYLES)
    outputs = [
        stage.run([StageInput(request, frames[chunk.context_start : chunk.context_end], chunk)])[0]
        for chunk in plan.ramp(len(frames))
    ]
    sound = np.concatenate([host_array(output.values) for output in outputs])
    # A silent frame next to one that is not is decoded, and one more on each side is context: [4, 13).
    assert session.spans == [[1, 16, 3, 14]]
    assert [output.skipped_frames for output in outputs] == [6, 5]
    expected = np.repeat(np.where((np.arange(20) >= 4) & (np.arange(20) < 13), (100 + np.arange(20)) / 1000, 0), 600)
    faded = slice(13 * 600, 13 * 600 + 240)
    assert np.all(np.diff(sound[faded].astype(np.float64)) <= 0)
    sound[faded] = expected[faded] = 0
    np.testing.assert_allclose(sound, expected, atol=1e-6)


def test_a_chunk_of_silence_follows_sound_without_a_click() -> None:
    stage = VocoderStage(FakeSession(), STYLES)
    plan = ChunkPlan(sizes=(4,), right_context_frames=1)
    sound = np.concatenate(stream(stage, ramp(8, first=500, silent=range(3, 8)), plan))
    assert sound[4 * 600 - 1] == pytest.approx(0.503)
    assert np.abs(np.diff(sound[4 * 600 - 1 :].astype(np.float64))).max() < 0.503 / 200
    assert not sound[4 * 600 + 240 :].any()


def test_sound_that_is_not_finite_fails_only_its_request() -> None:
    frames = ramp(2)
    frames[0, 0] = np.nan
    (chunk,) = ChunkPlan(sizes=(2,)).ramp(2)
    request = SynthesisRequest("r", "s", "", "af_heart")
    output = VocoderStage(FakeSession(), STYLES).run([StageInput(request, frames, chunk)])[0]
    assert isinstance(output.error, SynthesisFailed)
    assert len(output.values) == 0


def test_release_frees_the_tail_of_a_request_that_was_cancelled() -> None:
    stage = VocoderStage(FakeSession(), STYLES)
    request = SynthesisRequest("r", "s", "", "af_heart")
    chunk = next(ChunkPlan(sizes=(2,), right_context_frames=1).ramp(4))
    stage.run([StageInput(request, ramp(3), chunk)])
    assert stage._tails
    stage.release("r")
    stage.release("unknown")
    assert not stage._tails
