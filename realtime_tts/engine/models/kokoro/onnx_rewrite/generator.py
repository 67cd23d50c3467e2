"""Rewritten generator, the costly part of the vocoder: the same weights in fewer and larger operations.

In a profile of the exported graph (`python -m bench.kokoro_profile`), two thirds of the time go into 48 8-bit
convolutions and a sixth into the operators between them.  Every chunk is also decoded with context that is discarded.
Therefore:

* Convolutions use Toom-Cook (see toom_cook) in float32: up to 5 times fewer multiplications, and no activation is
  rounded to 8 bits.
* Time is the first axis and channels the last, so that a segment is gathered by rows and every multiplication is a
  MatMul.
* A normalisation whose mean and variance are inputs (see streaming_inputs) is a factor and an addend per channel; the
  bias before it is part of the addend.  The activation after it, x + sin²(αx)/α, is (u - cos u + 1) / 2α with
  u = 2αx: its factors are part of the normalisation before it and of the weights after it.
* Each part of the generator gets only as much context as it can use.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import onnx
from onnx import TensorProto, helper

from realtime_tts.engine.models.kokoro.onnx_rewrite.graph import (
    GENERATOR,
    Array,
    ExportedGenerator,
    GraphWriter,
    LayerKey,
    norm_rows,
    replace_nodes,
)
from realtime_tts.engine.models.kokoro.onnx_rewrite.streaming_inputs import NORMS
from realtime_tts.engine.models.kokoro.onnx_rewrite.toom_cook import toom_cook

SPANS = "spans"
"""The new input, int64 (4,): the window's frames `[start, end)` that the generator's first part computes, and those
that its second part computes, which are the output."""

_STYLE = "/decoder/Slice_output_0"  # (1, 128)
_FEATURES = f"{GENERATOR}/LeakyRelu_output_0"  # (1, 512, 2 * frames)
_SOURCE = f"{GENERATOR}/Reshape_3_output_0"  # (1, 600 * frames + 20): the voice's harmonics, mirrored at both ends
_SOUND = f"{GENERATOR}/LeakyRelu_2_output_0"  # (1, 128, 120 * frames + 1): input of the last layers

_FEATURE_ROWS, _HARMONIC_ROWS = 2, 120
"""Per frame."""
# Where the voice is silent the source is constant and nearly all of its spectrum is zero: the phase is then that of
# rounding errors, and it still affects the sound.  These are the exported graph's phases, so that the sound is the
# same.  The least amplitude in voiced sound is 1e-6, that of the errors 1e-7.
_ZERO_POWER = 2.5e-13
_PHASES_AT_ZERO_POWER = [3.1416, 0.0, 2.4904, -2.1254, 0.7935, -2.1292, 0.173, 2.9268, -1.3449, 2.7361, -1.5468]

_EPSILON = 1e-5
_SLOPE, _LAST_SLOPE = 0.1, 0.01
_DILATIONS = (1, 3, 5)
_LAYERS, _HALVES = range(3), (1, 2)


@dataclass(frozen=True, slots=True)
class Block:
    """A residual chain of six convolutions."""

    name: str
    taps: int
    segment: int
    """Samples: see toom_cook."""


@dataclass(frozen=True, slots=True)
class Part:
    """An upsampling, the harmonics that are added to it, and three blocks in parallel."""

    index: int
    channels: int
    stride: int
    rows_per_frame: int
    noise: Block
    blocks: tuple[Block, Block, Block]


PARTS = (
    Part(0, 256, 10, 20, Block("noise_res.0", 7, 14),
         (Block("resblocks.0", 3, 4), Block("resblocks.1", 7, 14), Block("resblocks.2", 11, 18))),
    Part(1, 128, 6, 120, Block("noise_res.1", 11, 34),
         (Block("resblocks.3", 3, 8), Block("resblocks.4", 7, 22), Block("resblocks.5", 11, 34))),
)  # fmt: skip


def rewrite_generator(vocoder: onnx.ModelProto) -> None:
    """In place.  Raises KeyError, with its name, where a layer is missing from the export."""
    graph = vocoder.graph
    writer = GraphWriter("generator")
    GeneratorRewriter(ExportedGenerator(graph), writer).write()
    tail = _needed(graph.node, {"audio"}, {_SOUND})
    head = _needed(graph.node, {name for node in writer.nodes for name in node.input}, set())
    replace_nodes(graph, [*head, *writer.nodes, *tail], writer)
    graph.input.append(helper.make_tensor_value_info(SPANS, TensorProto.INT64, [4]))


def _needed(nodes: list[onnx.NodeProto], values: set[str], given: set[str]) -> list[onnx.NodeProto]:
    """The nodes that compute `values` from `given` (or from the inputs), in their order."""
    wanted = values - given
    needed = []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            needed.append(node)
            wanted.update(set(node.input) - given)
    return needed[::-1]


class GeneratorRewriter:
    """Writes the new generator.  Each method returns the name of the value that it computes."""

    def __init__(self, exported: ExportedGenerator, writer: GraphWriter, parts: Sequence[Part] = PARTS) -> None:
        self._exported = exported
        self._write = writer
        self._parts = parts
        self._factors = self._write_factors()
        self._rows: dict[tuple[int, int, int], tuple[str, str]] = {}

    def write(self) -> None:
        write = self._write
        start_1, end_1, start_2, end_2 = write.split(SPANS, [1, 1, 1, 1], 0)
        harmonics = self._spectrum()
        x = self._crop(self._by_time(_FEATURES), start_1, end_1, _FEATURE_ROWS)
        x = self._part(PARTS[0], x, self._crop(harmonics, start_1, end_1, _HARMONIC_ROWS, more=1))
        start, end = (write("Sub", edge, start_1) for edge in (start_2, end_2))
        x = write("LeakyRelu", self._crop(x, start, end, PARTS[0].rows_per_frame), alpha=_SLOPE)
        x = self._part(PARTS[1], x, self._crop(harmonics, start_2, end_2, _HARMONIC_ROWS, more=1))
        write.scope = "last layers"
        x = write("LeakyRelu", write("Mul", x, write.floats(1 / 3)), alpha=_LAST_SLOPE)
        write("Unsqueeze", write("Transpose", x, perm=[1, 0]), write.ints(0), output=_SOUND)

    def _spectrum(self) -> str:
        """Magnitudes and phases of the source, (120 * frames + 1, 22): onnxruntime's STFT takes ten times as long."""
        write, size, hop = self._write, 20, 5
        write.scope = "source"
        n = np.arange(size)
        window = np.sin(np.pi * n / size) ** 2
        angles = 2 * np.pi * np.outer(n, np.arange(size // 2 + 1)) / size
        # Rounded, because the first and the last frequency are real: a phase of π there is +π, as in the export.
        basis = np.concatenate([np.cos(angles), -np.sin(angles).round(9)], axis=1) * window[:, None]
        hops = write("Reshape", _SOURCE, write.ints(-1, hop))
        later = size // hop - 1
        shifted = [write.rows(hops, start, start - later) for start in range(later + 1)]
        spectrum = write("MatMul", write("Concat", *shifted, axis=1), write.floats(basis))
        real, imaginary = write.split(spectrum, [size // 2 + 1] * 2, 1)
        power = write("Add", write("Mul", real, real), write("Mul", imaginary, imaginary))
        phase, zero, pi = write("Atan", write("Div", imaginary, real)), write.floats(0), write.floats(np.pi)
        beyond = write(
            "Where", write("GreaterOrEqual", imaginary, zero), write("Add", phase, pi), write("Sub", phase, pi)
        )
        phase = write("Where", write("Less", real, zero), beyond, phase)
        no_power = write("Less", power, write.floats(_ZERO_POWER))
        phase = write("Where", no_power, write.floats(_PHASES_AT_ZERO_POWER), phase)
        return write("Concat", write("Sqrt", power), phase, axis=1)

    def _by_time(self, x: str) -> str:
        """(1, channels, rows) -> (rows, channels)."""
        return self._write("Transpose", self._write("Squeeze", x, self._write.ints(0)), perm=[1, 0])

    def _crop(self, x: str, start: str, end: str, rows_per_frame: int, more: int = 0) -> str:
        write, rows = self._write, self._write.ints(rows_per_frame)
        return write("Slice", x, write("Mul", start, rows), write("Add", write("Mul", end, rows), write.ints(more)))

    def _part(self, part: Part, x: str, harmonics: str) -> str:
        """Three times the mean of the part's blocks."""
        write = self._write
        noise = self.block(part, part.noise, self._noise(part, harmonics))
        bias = self._exported.bias(f"ups.{part.index}") + self.block_bias(part.noise)
        x = write("Add", write("Add", self.upsample(part, x), noise), write.floats(bias))
        outputs = [self.block(part, block, x) for block in part.blocks]
        return write("Add", write("Sum", *outputs), write.floats(sum(map(self.block_bias, part.blocks))))

    def _noise(self, part: Part, harmonics: str) -> str:
        write, layer = self._write, f"noise_convs.{part.index}"
        write.scope = "noise_convs"
        weight, bias = _dequantised(*self._exported.convolution(layer)), write.floats(self._exported.bias(layer))
        if weight.shape[2] == 1:
            return write("Add", write("MatMul", harmonics, write.floats(weight[:, :, 0].T)), bias)
        x = write("Unsqueeze", write("Transpose", harmonics, perm=[1, 0]), write.ints(0))
        stride = _HARMONIC_ROWS // part.rows_per_frame
        return self._by_time(write("Conv", x, write.floats(weight), bias, strides=[stride], pads=[stride // 2] * 2))

    def upsample(self, part: Part, x: str) -> str:
        """A transposed convolution with twice as many taps as its stride: every output depends on two neighbours."""
        write, half = self._write, part.stride // 2
        write.scope = "upsampling"
        weight = self._exported.upsampling(f"ups.{part.index}")
        if part.index > 0:
            weight = weight / 3  # the input is the sum of three blocks, not their mean
        taps = weight.transpose(0, 2, 1).reshape(len(weight), 2, -1)
        padding = write.floats(np.zeros((1, len(weight))))
        neighbours = write("Concat", write("Concat", x, padding, axis=0), write("Concat", padding, x, axis=0), axis=1)
        x = write("MatMul", neighbours, write.floats(np.concatenate([taps[:, 0], taps[:, 1]])))
        x = write("Reshape", x, write.ints(-1, part.channels))
        if part.index == 0:
            return write.rows(x, half, -half)
        # The exported graph repeats the second row before the first, for the last layer's odd number of rows.
        repeated = write.rows(x, half + 1, half + 2)
        return write("Concat", repeated, write.rows(x, half, -half), axis=0)

    def block(self, part: Part, block: Block, x: str) -> str:
        """The block's output without its own bias: see block_bias."""
        self._write.scope = block.name
        for layer, dilation in zip(_LAYERS, _DILATIONS, strict=True):
            first, second = (block.name, 1, layer), (block.name, 2, layer)
            y = self._convolve(part, block, self._activate(x, first), first, dilation)
            y = self._convolve(part, block, self._activate(y, second), second, 1)
            x = self._write("Add", x, y)
        return x

    def _activate(self, x: str, key: LayerKey) -> str:
        """Normalised and activated, scaled by 2α and less 1."""
        factor, addend = self._factors[key]
        u = self._write("Add", self._write("Mul", x, factor), addend)
        return self._write("Sub", u, self._write("Cos", u))

    def _convolve(self, part: Part, block: Block, x: str, key: LayerKey, dilation: int) -> str:
        write = self._write
        # A silent input is -1 here (see _activate), so that is the padding.  Rows after the last one complete its
        # segment.
        before, after = block.taps // 2 * dilation, (block.taps // 2 + block.segment) * dilation
        padding = [write.floats(np.full((rows, part.channels), -1)) for rows in (before, after)]
        padded = write("Concat", padding[0], x, padding[1], axis=0)
        kind = (part.index, block.taps, dilation)
        if kind not in self._rows:
            self._rows[kind] = self._segment_rows(block, x, dilation)
        inputs, order = self._rows[kind]
        outputs = self._multiply(part, block, write("Gather", padded, inputs, axis=0), key)
        return write("Gather", outputs, order, axis=0)

    def _multiply(self, part: Part, block: Block, x: str, key: LayerKey) -> str:
        write, n, transforms = self._write, part.channels, toom_cook(block.segment, block.taps)
        count = len(transforms.weights)
        weight = write(
            "MatMul", write.floats(transforms.weights), write("Reshape", self._weight(key), write.ints(block.taps, -1))
        )
        weight = write("Reshape", weight, write.ints(count, n, n))
        x = write("MatMul", write.floats(transforms.inputs), write("Reshape", x, write.ints(block.segment, -1)))
        x = write("MatMul", write("Reshape", x, write.ints(count, -1, n)), weight)
        x = write("MatMul", write.floats(transforms.outputs), write("Reshape", x, write.ints(count, -1)))
        return write("Reshape", x, write.ints(-1, n))

    def _weight(self, key: LayerKey) -> str:
        """(taps, in, out), 8-bit in the file: onnxruntime folds these nodes into one constant at loading."""
        write = self._write
        weight, zero, scale = self._exported.convolution(_name_of(key))
        x = write("Cast", write.constant(weight.transpose(2, 1, 0)), to=TensorProto.FLOAT)
        x = write("Sub", x, write.floats(zero))
        return write("Mul", x, write.floats(scale / self._doubled_alpha(key)[:, None]))

    def _segment_rows(self, block: Block, x: str, dilation: int) -> tuple[str, str]:
        """Indices of the rows in each segment, (size, segments, dilation), and of each output row in the results."""
        write, rows = self._write, self._write("Shape", x, end=1)
        new = block.segment - block.taps + 1
        step = write.ints(new * dilation)
        count = write("Div", write("Add", rows, write.ints(new * dilation - 1)), step)
        starts = write("Reshape", write("Mul", self._count_to(count), step), write.ints(1, -1, 1))
        within = np.arange(block.segment * dilation).reshape(block.segment, 1, dilation)
        inputs = write("Add", starts, write.constant(within))
        results = write("Reshape", self._count_to(write("Mul", count, step)), write.ints(new, -1, dilation))
        order = write("Reshape", write("Transpose", results, perm=[1, 0, 2]), write.ints(-1))
        return inputs, write("Slice", order, write.ints(0), rows)

    def _count_to(self, end: str) -> str:
        write = self._write
        zero, one = write.constant(np.array(0)), write.constant(np.array(1))
        return write("Range", zero, write("Squeeze", end), one)

    def _write_factors(self) -> dict[LayerKey, tuple[str, str]]:
        """Every normalisation, computed together, as a factor and an addend per channel, (1, channels)."""
        write, exported = self._write, self._exported
        norms = [norm for part in self._parts for norm in _norms_of(part)]
        keys = [key for key, _, _ in norms]
        sizes = [channels for _, channels, _ in norms]
        weights, biases = zip(*(exported.style(key) for key in keys), strict=True)
        styles = np.concatenate([np.stack(np.split(weight, 2, axis=1)) for weight in weights], axis=2)  # (2, 128, all)
        bases = np.concatenate([np.stack(np.split(bias, 2)) for bias in biases], axis=1)
        gain, shift = (
            write("Add", write("MatMul", _STYLE, write.floats(style)), write.floats(base))
            for style, base in zip(styles, bases + np.array([[1], [0]]), strict=True)
        )
        statistics = write("Reshape", NORMS, write.ints(1, -1))
        rows = [norm_rows(source) for _, _, source in norms]
        mean, variance = (
            write("Gather", statistics, write.constant(np.concatenate(each)), axis=1)
            for each in zip(*rows, strict=True)
        )
        doubled = write.floats(np.concatenate([self._doubled_alpha(key) for key in keys]))
        factor = write("Div", gain, write("Sqrt", write("Add", variance, write.floats(_EPSILON))))
        missing = write.floats(np.concatenate([self._missing_bias(key) for key in keys]))
        addend = write("Add", write("Mul", write("Sub", missing, mean), factor), shift)
        factors, addends = (write.split(write("Mul", each, doubled), sizes, 1) for each in (factor, addend))
        return dict(zip(keys, zip(factors, addends, strict=True), strict=True))

    def _missing_bias(self, key: LayerKey) -> Array:
        """The biases before a normalisation that have not been added to its input."""
        block, half, layer = key
        if half == 2:
            return self._bias((block, 1, layer))
        return self._residual_bias(block, range(layer)) + np.zeros_like(self._doubled_alpha(key))

    def block_bias(self, block: Block) -> Array:
        return self._residual_bias(block.name, _LAYERS)

    def _residual_bias(self, block: str, layers: Iterable[int]) -> Array:
        total: Array = np.zeros(1)
        for layer in layers:
            total = total + self._bias((block, 2, layer))
        return total

    def _bias(self, key: LayerKey) -> Array:
        """A convolution's bias, with the constant that the activation before it leaves out (see _activate)."""
        weight = _dequantised(*self._exported.convolution(_name_of(key))).astype(np.float64)
        constant = (weight / self._doubled_alpha(key)[:, None]).sum(axis=(1, 2))
        bias: Array = self._exported.bias(_name_of(key)) + constant
        return bias

    def _doubled_alpha(self, key: LayerKey) -> Array:
        doubled: Array = 2 * self._exported.alpha(key)
        return doubled


def _norms_of(part: Part) -> Iterator[tuple[LayerKey, int, LayerKey]]:
    """Each normalisation, its channels, and the one whose statistics it uses: three have the same input."""
    for block, layer, half in product((part.noise, *part.blocks), _LAYERS, _HALVES):
        shared = block in part.blocks and (half, layer) == (1, 0)
        yield (block.name, half, layer), part.channels, ((part.blocks[0] if shared else block).name, half, layer)


def _name_of(key: LayerKey) -> str:
    block, half, layer = key
    return f"{block}/convs{half}.{layer}"


def _dequantised(weight: Array, zero: Array, scale: Array) -> Array:
    values: Array = (weight.astype(np.float32) - zero.astype(np.float32)) * scale
    return values
