"""The rewritten generator computes what the published layers are defined to, whatever the length."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from realtime_tts.engine.models.kokoro.cut import extract_vocoder
from realtime_tts.engine.models.kokoro.frames import SAMPLES_PER_FRAME
from realtime_tts.engine.models.kokoro.generator import PARTS, SPANS, Block, Rewriting
from realtime_tts.engine.models.kokoro.published import Array, Key, Published, Writer, norm_rows
from realtime_tts.engine.models.kokoro.sessions import load_session
from realtime_tts.engine.models.kokoro.steady import NORM_CHANNELS, NORMS, make_steady
from realtime_tts.engine.models.kokoro.styles import load_styles
from realtime_tts.engine.models.kokoro.vocoder import VocoderStage
from realtime_tts.engine.models.kokoro.weights import MODEL_NAME, find_weights
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.stage import StageInput, host_array
from tests.engine.models.kokoro.conftest import WHOLE, Speaker

PART = PARTS[1]
N = PART.channels
STYLE = "/decoder/Slice_output_0"


class Invented(Published):
    """Weights of the right shapes, from a seed that is the layer's name."""

    def __init__(self) -> None:
        self._taps = {block.name: block.taps for block in (PART.noise, *PART.blocks)}

    def _rng(self, *key: object) -> np.random.Generator:
        return np.random.default_rng(list(repr(key).encode()))

    def bias(self, layer: str) -> Array:
        return self._rng("bias", layer).standard_normal(N).astype(np.float32)

    def alpha(self, key: Key) -> Array:
        return self._rng("alpha", key).uniform(0.3, 1.5, N).astype(np.float32)

    def convolution(self, layer: str) -> tuple[Array, Array, Array]:
        taps = self._taps[layer.partition("/")[0]]
        weight = self._rng(layer).integers(0, 256, (N, N, taps), dtype=np.uint8)
        return weight, np.array(131, dtype=np.uint8), np.array(0.02 / np.sqrt(N * taps), dtype=np.float32)

    def upsampling(self, layer: str) -> Array:
        return self._rng(layer).standard_normal((2 * N, N, 2 * PART.stride)).astype(np.float32) / 16

    def style(self, key: Key) -> tuple[Array, Array]:
        rng = self._rng("style", key)
        return rng.standard_normal((128, 2 * N)).astype(np.float32) / 40, rng.standard_normal(2 * N).astype(np.float32)


def run(write: Callable[[Rewriting], str], **feed: Array) -> Array:
    writer = Writer("test")
    made = write(Rewriting(Invented(), writer, (PART,)))
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in feed.items()]
    outputs = [helper.make_tensor_value_info(made, TensorProto.FLOAT, None)]
    graph = helper.make_graph(writer.nodes, "rewritten", inputs, outputs, writer.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    values: Array = session.run([made], feed)[0]
    return values


def published_convolution(layer: str, x: Array, dilation: int) -> Array:
    weight, zero, scale = Invented().convolution(layer)
    taps = weight.shape[2]
    padded = np.pad(x, ((taps // 2 * dilation,) * 2, (0, 0)))
    y = np.zeros_like(x) + Invented().bias(layer)
    for tap in range(taps):
        kernel = (weight[:, :, tap].astype(np.float64) - zero) * scale
        y += padded[tap * dilation : tap * dilation + len(x)] @ kernel.T
    return y


def published_block(block: Block, x: Array, style: Array, norms: Array) -> Array:
    """Kokoro's AdaINResBlock1, sample by sample, with given means and variances."""
    published = Invented()
    shared = PART.blocks[0].name if block in PART.blocks else block.name
    for turn, dilation in enumerate((1, 3, 5)):
        y = x
        for half in (1, 2):
            key = (block.name, half, turn)
            means, variances = (
                norms[0, list(rows)] for rows in norm_rows(shared if (half, turn) == (1, 0) else block.name, half, turn)
            )
            weight, bias = published.style(key)
            gain, shift = np.split(style @ weight + bias, 2, axis=1)
            y = (1 + gain) * (y - means.T) / np.sqrt(variances.T + 1e-5) + shift
            alpha = published.alpha(key)
            y = y + np.sin(alpha * y) ** 2 / alpha
            y = published_convolution(f"{block.name}/convs{half}.{turn}", y, dilation if half == 1 else 1)
        x = x + y
    return x


@pytest.mark.parametrize("block", [PART.noise, *PART.blocks], ids=lambda block: block.name)
@pytest.mark.parametrize("rows", [1, 121])
def test_a_block_computes_what_is_published(block: Block, rows: int) -> None:
    rng = np.random.default_rng(rows)
    x, style = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, N), (1, 128)))
    norms = rng.uniform(0.5, 2, (1, NORM_CHANNELS, 1)).astype(np.float32)
    made = run(lambda rewriting: rewriting.block(PART, block, "x"), **{"x": x, STYLE: style, NORMS: norms})
    expected = published_block(block, x, style, norms)
    bias = Rewriting(Invented(), Writer("test"), (PART,)).block_bias(block)
    np.testing.assert_allclose(made + bias, expected, atol=2e-4 * np.abs(expected).max())


@pytest.mark.parametrize("rows", [2, 9])
def test_upsampling_is_a_transposed_convolution(rows: int) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, 2 * N)).astype(np.float32)
    weight = Invented().upsampling("ups.1") / 3
    whole = np.zeros(((rows + 1) * PART.stride, N))
    for row in range(rows):
        whole[row * PART.stride : (row + 2) * PART.stride] += np.einsum("i,iot->to", x[row], weight)
    expected = whole[PART.stride // 2 : -PART.stride // 2]
    unused = {STYLE: np.zeros((1, 128), np.float32), NORMS: np.ones((1, NORM_CHANNELS, 1), np.float32)}
    made = run(lambda rewriting: rewriting.upsample(PART, "x"), x=x, **unused)
    np.testing.assert_allclose(made, np.concatenate([expected[1:2], expected]), atol=1e-4)


def difference_db(sound: Array, reference: Array) -> float:
    return float(10 * np.log10(np.sum((sound - reference) ** 2) / np.sum(reference**2)))


class Cropped:
    """A session of the published graph, which gives all of a window, asked for a span of it."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def run(self, outputs: list[str], feed: dict[str, Array]) -> list[Array]:
        start, end = feed[SPANS][2:] * SAMPLES_PER_FRAME
        (sound,) = self._session.run(outputs, {name: value for name, value in feed.items() if name != SPANS})
        return [sound.reshape(-1)[start:end]]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> VocoderStage:
    """The vocoder before it is rewritten."""
    directory = tmp_path_factory.mktemp("published")
    find_weights().write_to(directory / MODEL_NAME)
    vocoder = extract_vocoder(directory / MODEL_NAME, directory / "vocoder.onnx")
    make_steady(vocoder)
    onnx.save(vocoder, directory / "vocoder.onnx")
    return VocoderStage(Cropped(load_session(directory / "vocoder.onnx", threads=2)), load_styles())


@pytest.mark.model
def test_the_voice_sounds_as_published(speaker: Speaker, published: VocoderStage) -> None:
    request = speaker.request("Good morning.")
    frames = speaker.frames(request)
    (sound,) = speaker.chunks(request, frames, WHOLE)
    (chunk,) = WHOLE.ramp(len(frames))
    expected = host_array(published.run([StageInput(request, frames, chunk)])[0].values)
    assert difference_db(sound, expected.astype(np.float32)) < -9


@pytest.mark.model
def test_the_parts_need_no_more_context_than_they_are_given(speaker: Speaker) -> None:
    request = speaker.request("Good morning.")
    frames = speaker.frames(request)
    (whole,) = speaker.chunks(request, frames, WHOLE)
    everything = ChunkPlan(sizes=(20,), left_context_frames=1000, right_context_frames=1000)
    chunks = list(speaker.chunks(request, frames, everything))
    assert len(chunks) > 2
    assert difference_db(np.concatenate(chunks), whole) < -20
