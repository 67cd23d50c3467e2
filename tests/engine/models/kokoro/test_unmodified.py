"""Tests of `rewrite=false`: the exported graph speaks in chunks, and sounds like the rewritten one."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper

from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models.kokoro import loading as kokoro
from realtime_tts.engine.models.kokoro.phonemes import Piece, Pronunciations
from realtime_tts.engine.models.kokoro.styles import load_styles
from realtime_tts.engine.models.kokoro.unmodified import SampleStage, WholeGraphStage, load_unmodified
from realtime_tts.engine.models.kokoro.weights import MODEL_NAME, find_weights
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.stage import StageInput, host_array
from realtime_tts.errors import ModelNotUsable, SynthesisFailed
from realtime_tts.text.offsets import AlignedText
from tests.engine.models.kokoro.conftest import Array, Speaker, real_voice

# The normalisation statistics are constants of the voice in the rewritten graph and computed from the sentence in the
# exported one, so loudness and timbre differ a little.  Measured with 4 sentences of 3 voices, at equal loudness:
# correlation 0.60 to 0.88, mel distance 2.4 to 4.3 dB, durations within 2 frames (leading silence is found in other
# ways).  Between different sentences of a voice: at most 0.14, at least 15.6 dB.
MIN_CORRELATION = 0.5
MAX_MEL_DISTANCE_DB = 6.0
MAX_DURATION_DIFFERENCE_FRAMES = 3

REQUEST = SynthesisRequest("r", "s", "text", "af_heart")


NOT_FINITE = 99


class FakeSession:
    """Computes two frames of sound for every token; the sound of a token is its value in hundredths."""

    def run(self, outputs: None, inputs: dict[str, Array]) -> list[Array]:
        tokens = inputs["tokens"][0]
        return [np.repeat(np.where(tokens == NOT_FINITE, np.nan, tokens / 100), 1200).astype(np.float32)]


def stage(*pieces: list[int]) -> WholeGraphStage:
    def read(text: str, pronunciations: Pronunciations, voice: str) -> list[Piece]:
        return [Piece(AlignedText.of("a" * len(tokens)), tuple(tokens)) for tokens in pieces]

    return WholeGraphStage(FakeSession(), read, load_styles())


def test_a_frame_is_600_samples_and_words_have_no_times() -> None:
    whole = stage([20, 30], [40])
    first, second = whole.run([StageInput(REQUEST)])[0], whole.run([StageInput(REQUEST)])[0]
    assert (host_array(first.values).shape, first.finished, first.words) == ((8, 600), False, ())
    assert (host_array(second.values).shape, second.finished, second.words) == ((6, 600), True, ())
    assert host_array(first.values)[:, 0].tolist() == pytest.approx([0, 0, 0.2, 0.2, 0.3, 0.3, 0, 0])


def test_leading_silence_is_reduced_to_two_frames() -> None:
    (output,) = stage([0, 0, 50]).run([StageInput(REQUEST)])
    assert host_array(output.values)[:, 0].tolist() == [0, 0, 0.5, 0.5, 0, 0]


def test_sound_that_is_not_finite_fails_the_request() -> None:
    (output,) = stage([NOT_FINITE]).run([StageInput(REQUEST)])
    assert isinstance(output.error, SynthesisFailed)


def test_chunks_are_slices_of_the_sound() -> None:
    frames = np.linspace(-2, 2, 20 * 600, dtype=np.float32).reshape(20, 600)
    plan = ChunkPlan(sizes=(3, 7), left_context_frames=2, right_context_frames=1)
    samples = SampleStage()
    outputs = [
        samples.run([StageInput(REQUEST, frames[chunk.context_start : chunk.context_end], chunk)])[0]
        for chunk in plan.ramp(len(frames))
    ]
    sound = np.concatenate([host_array(output.values) for output in outputs])
    np.testing.assert_array_equal(sound, frames.ravel().clip(-1, 1))
    assert [output.finished for output in outputs] == [False, False, False, True]


def test_a_graph_with_other_inputs_is_refused(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("input_ids", TensorProto.FLOAT, [1])
    sound = helper.make_tensor_value_info("audio", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["input_ids"], ["audio"])], "g", [value], [sound])
    opsets = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / MODEL_NAME)
    with pytest.raises(ModelNotUsable, match="its inputs are input_ids"):
        load_unmodified(find_weights(tmp_path), threads=1)


@pytest.mark.slow
@real_voice
def test_both_graphs_agree_in_sound_and_duration(speaker: Speaker) -> None:
    unmodified = Speaker(kokoro.build(threads=2, rewrite=False))
    assert unmodified.model.info.fields == speaker.model.info.fields - {"word_timestamps"}
    for text in ("Hello there, how can I help you today?", "Wait: is it 5 o'clock, or is it not?"):
        for voice in ("af_heart", "am_michael", "bf_emma"):
            rewritten = np.concatenate(speaker.say(text, speaker.model.chunk_plan, voice))
            chunks = unmodified.say(text, unmodified.model.chunk_plan, voice)
            exported = np.concatenate(chunks)
            assert len(chunks) > 2
            difference = abs(len(rewritten) - len(exported))
            assert difference <= MAX_DURATION_DIFFERENCE_FRAMES * 600, (voice, text, difference)
            one, other = time_aligned(rewritten, exported)
            assert np.corrcoef(one, other)[0, 1] >= MIN_CORRELATION, (voice, text)
            assert mel_distance_db(one, other) <= MAX_MEL_DISTANCE_DB, (voice, text)
    for text in ("Yes.", "Right.", "Hi!", "I see.", "Hello.", "Nice to meet you.", "Would you like some coffee?"):
        for voice in ("af_heart", "af_bella", "am_michael", "bf_emma"):
            rewritten = np.concatenate(speaker.say(text, speaker.model.chunk_plan, voice))
            exported = np.concatenate(unmodified.say(text, unmodified.model.chunk_plan, voice))
            assert 0.6 < loudness(rewritten) / loudness(exported) < 1.7, (voice, text)


def loudness(samples: Array) -> float:
    return float(np.sqrt(np.mean(samples**2)))


def time_aligned(one: Array, other: Array) -> tuple[Array, Array]:
    """Both at equal loudness, without what precedes the start that they share (the lag of maximal correlation)."""
    most = MAX_DURATION_DIFFERENCE_FRAMES * 600
    size = len(one) + len(other)
    correlations = np.fft.irfft(np.fft.rfft(one, size) * np.conj(np.fft.rfft(other, size)), size)
    lags = np.arange(-most, most + 1)
    lag = int(lags[np.argmax(correlations[lags])])
    one, other = one[max(0, lag) :], other[max(0, -lag) :]
    length = min(len(one), len(other))
    one, other = one[:length], other[:length]
    return 0.07 * one / one.std(), 0.07 * other / other.std()


def mel_distance_db(one: Array, other: Array) -> float:
    """The mean absolute difference of the log-mel spectrograms (80 bands, windows of 1024 every 256 samples)."""
    return float(np.abs(log_mel(one) - log_mel(other)).mean())


def log_mel(samples: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(samples, 512), 1024)[::256] * np.hanning(1024)
    power = np.abs(np.fft.rfft(windows)) ** 2
    mels, edges = to_mel(np.fft.rfftfreq(1024, 1 / 24_000)), np.linspace(0, to_mel(np.array(12_000)), 82)[:, None]
    rising, falling = mels - edges[:-2], edges[2:] - mels
    bank = np.maximum(0, np.minimum(rising, falling) / (edges[1] - edges[0]))
    values: Array = 10 * np.log10(power @ bank.T + 1e-4)
    return values


def to_mel(frequency_hz: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    mels: npt.NDArray[np.floating] = 2595 * np.log10(1 + frequency_hz / 700)
    return mels
