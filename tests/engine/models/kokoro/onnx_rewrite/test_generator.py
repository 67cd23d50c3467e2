"""Tests of the rewritten generator: the same results as the exported layers, for any length."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from realtime_tts.engine.models.kokoro.frames import SAMPLES_PER_FRAME
from realtime_tts.engine.models.kokoro.onnx_rewrite.generator import PARTS, SPANS, Block, GeneratorRewriter
from realtime_tts.engine.models.kokoro.onnx_rewrite.graph import (
    Array,
    ExportedGenerator,
    GraphWriter,
    LayerKey,
    norm_rows,
)
from realtime_tts.engine.models.kokoro.onnx_rewrite.split_graph import extract_vocoder
from realtime_tts.engine.models.kokoro.onnx_rewrite.streaming_inputs import NORM_CHANNELS, NORMS, add_streaming_inputs
from realtime_tts.engine.models.kokoro.onnx_sessions import load_session
from realtime_tts.engine.models.kokoro.styles import load_styles
from realtime_tts.engine.models.kokoro.vocoder import VocoderStage
from realtime_tts.engine.models.kokoro.weights import MODEL_NAME, find_weights
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.stage import StageInput, host_array
from tests.engine.models.kokoro.conftest import WHOLE, Speaker, real_voice

PART = PARTS[1]
N = PART.channels
STYLE = "/decoder/Slice_output_0"


class RandomGenerator(ExportedGenerator):
    """Random weights of the right shapes, seeded by the layer's name."""

    def __init__(self) -> None:
        self._taps = {block.name: block.taps for block in (PART.noise, *PART.blocks)}

    def _rng(self, *key: object) -> np.random.Generator:
        return np.random.default_rng(list(repr(key).encode()))

    def bias(self, layer: str) -> Array:
        return self._rng("bias", layer).standard_normal(N).astype(np.float32)

    def alpha(self, key: LayerKey) -> Array:
        return self._rng("alpha", key).uniform(0.3, 1.5, N).astype(np.float32)

    def convolution(self, layer: str) -> tuple[Array, Array, Array]:
        taps = self._taps[layer.partition("/")[0]]
        weight = self._rng(layer).integers(0, 256, (N, N, taps), dtype=np.uint8)
        return weight, np.array(131, dtype=np.uint8), np.array(0.02 / np.sqrt(N * taps), dtype=np.float32)

    def upsampling(self, layer: str) -> Array:
        return self._rng(layer).standard_normal((2 * N, N, 2 * PART.stride)).astype(np.float32) / 16

    def style(self, key: LayerKey) -> tuple[Array, Array]:
        rng = self._rng("style", key)
        return rng.standard_normal((128, 2 * N)).astype(np.float32) / 40, rng.standard_normal(2 * N).astype(np.float32)


def run(write: Callable[[GeneratorRewriter], str], **values: Array) -> Array:
    writer = GraphWriter("test")
    output = write(GeneratorRewriter(RandomGenerator(), writer, (PART,)))
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in values.items()]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    graph = helper.make_graph(writer.nodes, "rewritten", inputs, outputs, writer.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    result: Array = session.run([output], values)[0]
    return result


def exported_convolution(layer: str, x: Array, dilation: int) -> Array:
    weight, zero, scale = RandomGenerator().convolution(layer)
    taps = weight.shape[2]
    padded = np.pad(x, ((taps // 2 * dilation,) * 2, (0, 0)))
    y = np.zeros_like(x) + RandomGenerator().bias(layer)
    for tap in range(taps):
        kernel = (weight[:, :, tap].astype(np.float64) - zero) * scale
        y += padded[tap * dilation : tap * dilation + len(x)] @ kernel.T
    return y


def exported_block(block: Block, x: Array, style: Array, norms: Array) -> Array:
    """Kokoro's AdaINResBlock1, sample by sample, with given means and variances."""
    exported = RandomGenerator()
    shared = PART.blocks[0].name if block in PART.blocks else block.name
    for layer, dilation in enumerate((1, 3, 5)):
        y = x
        for half in (1, 2):
            key = (block.name, half, layer)
            source = (shared if (half, layer) == (1, 0) else block.name, half, layer)
            means, variances = (norms[0, list(rows)] for rows in norm_rows(source))
            weight, bias = exported.style(key)
            gain, shift = np.split(style @ weight + bias, 2, axis=1)
            y = (1 + gain) * (y - means.T) / np.sqrt(variances.T + 1e-5) + shift
            alpha = exported.alpha(key)
            y = y + np.sin(alpha * y) ** 2 / alpha
            y = exported_convolution(f"{block.name}/convs{half}.{layer}", y, dilation if half == 1 else 1)
        x = x + y
    return x


@pytest.mark.parametrize("block", [PART.noise, *PART.blocks], ids=lambda block: block.name)
def test_a_block_computes_the_same_as_the_exported_one(block: Block) -> None:
    for rows in (1, 121):
        rng = np.random.default_rng(rows)
        x, style = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, N), (1, 128)))
        norms = rng.uniform(0.5, 2, (1, NORM_CHANNELS, 1)).astype(np.float32)
        output = run(lambda rewriter: rewriter.block(PART, block, "x"), **{"x": x, STYLE: style, NORMS: norms})
        expected = exported_block(block, x, style, norms)
        bias = GeneratorRewriter(RandomGenerator(), GraphWriter("test"), (PART,)).block_bias(block)
        np.testing.assert_allclose(output + bias, expected, atol=2e-4 * np.abs(expected).max(), err_msg=f"{rows} rows")


def test_upsampling_is_a_transposed_convolution() -> None:
    weight = RandomGenerator().upsampling("ups.1") / 3
    unused = {STYLE: np.zeros((1, 128), np.float32), NORMS: np.ones((1, NORM_CHANNELS, 1), np.float32)}
    for rows in (2, 9):
        x = np.random.default_rng(rows).standard_normal((rows, 2 * N)).astype(np.float32)
        whole = np.zeros(((rows + 1) * PART.stride, N))
        for row in range(rows):
            whole[row * PART.stride : (row + 2) * PART.stride] += np.einsum("i,iot->to", x[row], weight)
        expected = whole[PART.stride // 2 : -PART.stride // 2]
        output = run(lambda rewriter: rewriter.upsample(PART, "x"), x=x, **unused)
        np.testing.assert_allclose(output, np.concatenate([expected[1:2], expected]), atol=1e-4, err_msg=f"{rows} rows")


def difference_db(sound: Array, reference: Array) -> float:
    return float(10 * np.log10(np.sum((sound - reference) ** 2) / np.sum(reference**2)))


class Cropped:
    """A session of the exported vocoder, which computes a whole window, with its output cropped to SPANS."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def run(self, outputs: list[str], inputs: dict[str, Array]) -> list[Array]:
        start, end = inputs[SPANS][2:] * SAMPLES_PER_FRAME
        (sound,) = self._session.run(outputs, {name: value for name, value in inputs.items() if name != SPANS})
        return [sound.reshape(-1)[start:end]]


def load_before_generator_pass(directory: Path) -> VocoderStage:
    """The exported vocoder with streaming inputs, but without the generator pass."""
    find_weights().write_to(directory / MODEL_NAME)
    vocoder = extract_vocoder(directory / MODEL_NAME, directory / "vocoder.onnx")
    add_streaming_inputs(vocoder)
    onnx.save(vocoder, directory / "vocoder.onnx")
    return VocoderStage(Cropped(load_session(directory / "vocoder.onnx", threads=2)), load_styles())


@pytest.mark.slow
@real_voice
def test_the_voice_sounds_as_before_the_generator_pass(speaker: Speaker, tmp_path: Path) -> None:
    request = speaker.request("Good morning.")
    frames = speaker.frames(request)
    (sound,) = speaker.chunks(request, frames, WHOLE)
    (chunk,) = WHOLE.ramp(len(frames))
    before = load_before_generator_pass(tmp_path)
    expected = host_array(before.run([StageInput(request, frames, chunk)])[0].values)
    assert difference_db(sound, expected.astype(np.float32)) < -9


@real_voice
def test_the_parts_need_no_more_context_than_they_get(speaker: Speaker) -> None:
    request = speaker.request("Good morning.")
    frames = speaker.frames(request)
    (whole,) = speaker.chunks(request, frames, WHOLE)
    everything = ChunkPlan(sizes=(20,), left_context_frames=1000, right_context_frames=1000)
    chunks = list(speaker.chunks(request, frames, everything))
    assert len(chunks) > 2
    assert difference_db(np.concatenate(chunks), whole) < -20
