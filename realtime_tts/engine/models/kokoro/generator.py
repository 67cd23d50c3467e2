"""Rewrites the costly part of the vocoder, its generator, so that the same weights cost less.

Profiled as published (`python -m bench.kokoro_profile`), two thirds of the time go into 48 convolutions in int8, and a
sixth into what lies between them.  Every chunk, moreover, is decoded with context that is thrown away.  Hence:

* Convolutions are done in tiles (see tiles), in float32: up to 5 times fewer multiplications, and no activation is
  rounded to 8 bits.
* Time is the first axis and channels the last, so that a tile is gathered by rows and every product is of matrices.
* A normalisation whose mean and variance are inputs (see steady) is a factor and an addend for each channel; the bias
  before it goes into the addend.  The activation after it, x + sin²(αx)/α, is (u - cos u + 1) / 2α with u = 2αx: its
  factors go into the normalisation before it and the weights after it.
* Each part of the generator sees as much context as it can use.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import onnx
from onnx import TensorProto, helper

from realtime_tts.engine.models.kokoro.published import GENERATOR, Array, Key, Published, Writer, norm_rows
from realtime_tts.engine.models.kokoro.steady import NORMS
from realtime_tts.engine.models.kokoro.tiles import make_tile

SPANS = "spans"
"""The new input, int64 (4,): which frames of the window the generator's first part sees, `[start, end)`, and which its
second part does, whose sound is given."""

_STYLE = "/decoder/Slice_output_0"  # (1, 128)
_FEATURES = f"{GENERATOR}/LeakyRelu_output_0"  # (1, 512, 2 * frames)
_SOURCE = f"{GENERATOR}/Reshape_3_output_0"  # (1, 600 * frames + 20): the voice's harmonics, mirrored at both ends
_SOUND = f"{GENERATOR}/LeakyRelu_2_output_0"  # (1, 128, 120 * frames + 1): the last layers make samples of it

_FEATURE_ROWS, _HARMONIC_ROWS = 2, 120
"""A frame."""
# Where the voice is silent the source is constant, and nearly all of its spectrum nought: the phase is then that of
# rounding errors, which the network hears all the same.  These are the published graph's, so that it hears the same.
# The least amplitude in voiced sound is 1e-6, that of the errors 1e-7.
_NO_POWER = 2.5e-13
_PHASES_OF_NOTHING = [3.1416, 0.0, 2.4904, -2.1254, 0.7935, -2.1292, 0.173, 2.9268, -1.3449, 2.7361, -1.5468]

_EPSILON = 1e-5
_SLOPE, _LAST_SLOPE = 0.1, 0.01
_DILATIONS = (1, 3, 5)
_TURNS, _HALVES = range(3), (1, 2)


@dataclass(frozen=True, slots=True)
class Block:
    """Six convolutions in a residual chain."""

    name: str
    taps: int
    tile: int
    """Samples: see tiles."""


@dataclass(frozen=True, slots=True)
class Part:
    """An upsampling, the harmonics that are added to it, and three blocks side by side."""

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
    """In place.  Raises KeyError, with its name, where something is not as published."""
    graph = vocoder.graph
    writer = Writer("generator")
    Rewriting(Published(graph), writer).write()
    tail = _needed(graph.node, {"audio"}, {_SOUND})
    head = _needed(graph.node, {name for node in writer.nodes for name in node.input}, set())
    nodes = [*head, *writer.nodes, *tail]
    used = {name for node in nodes for name in node.input}
    constants = [constant for constant in (*graph.initializer, *writer.constants) if constant.name in used]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend(constants)
    graph.input.append(helper.make_tensor_value_info(SPANS, TensorProto.INT64, [4]))


def _needed(nodes: list[onnx.NodeProto], values: set[str], given: set[str]) -> list[onnx.NodeProto]:
    """The nodes that `values` come from, in their order, as far back as what is given."""
    wanted = values - given
    needed = []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            needed.append(node)
            wanted.update(set(node.input) - given)
    return needed[::-1]


class Rewriting:
    """Writes the new generator, value by value: every method gives the name of what it has made."""

    def __init__(self, published: Published, writer: Writer, parts: Sequence[Part] = PARTS) -> None:
        self._published = published
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
        write("Unsqueeze", write("Transpose", x, perm=[1, 0]), write.ints(0), made=_SOUND)

    def _spectrum(self) -> str:
        """Magnitudes and phases of the source, (120 * frames + 1, 22): onnxruntime's STFT takes ten times as long."""
        write, size, hop = self._write, 20, 5
        write.scope = "source"
        n = np.arange(size)
        window = np.sin(np.pi * n / size) ** 2
        turns = 2 * np.pi * np.outer(n, np.arange(size // 2 + 1)) / size
        # Rounded, because the first and the last frequency are real: half a turn there is +π, as published, never -π.
        basis = np.concatenate([np.cos(turns), -np.sin(turns).round(9)], axis=1) * window[:, None]
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
        nothing = write("Less", power, write.floats(_NO_POWER))
        phase = write("Where", nothing, write.floats(_PHASES_OF_NOTHING), phase)
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
        bias = self._published.bias(f"ups.{part.index}") + self.block_bias(part.noise)
        x = write("Add", write("Add", self.upsample(part, x), noise), write.floats(bias))
        made = [self.block(part, block, x) for block in part.blocks]
        return write("Add", write("Sum", *made), write.floats(sum(map(self.block_bias, part.blocks))))

    def _noise(self, part: Part, harmonics: str) -> str:
        write, layer = self._write, f"noise_convs.{part.index}"
        write.scope = "noise_convs"
        weight, bias = _dequantised(*self._published.convolution(layer)), write.floats(self._published.bias(layer))
        if weight.shape[2] == 1:
            return write("Add", write("MatMul", harmonics, write.floats(weight[:, :, 0].T)), bias)
        x = write("Unsqueeze", write("Transpose", harmonics, perm=[1, 0]), write.ints(0))
        stride = _HARMONIC_ROWS // part.rows_per_frame
        return self._by_time(write("Conv", x, write.floats(weight), bias, strides=[stride], pads=[stride // 2] * 2))

    def upsample(self, part: Part, x: str) -> str:
        """A transposed convolution of twice as many taps as its stride: every output comes from two neighbours."""
        write, half = self._write, part.stride // 2
        write.scope = "upsampling"
        weight = self._published.upsampling(f"ups.{part.index}")
        if part.index > 0:
            weight = weight / 3  # what comes is the sum of three blocks
        taps = weight.transpose(0, 2, 1).reshape(len(weight), 2, -1)
        silence = write.floats(np.zeros((1, len(weight))))
        neighbours = write("Concat", write("Concat", x, silence, axis=0), write("Concat", silence, x, axis=0), axis=1)
        x = write("MatMul", neighbours, write.floats(np.concatenate([taps[:, 0], taps[:, 1]])))
        x = write("Reshape", x, write.ints(-1, part.channels))
        if part.index == 0:
            return write.rows(x, half, -half)
        # The published graph repeats the second row before the first, for the last layer's odd number of rows.
        repeated = write.rows(x, half + 1, half + 2)
        return write("Concat", repeated, write.rows(x, half, -half), axis=0)

    def block(self, part: Part, block: Block, x: str) -> str:
        """Without its own bias."""
        self._write.scope = block.name
        for turn, dilation in zip(_TURNS, _DILATIONS, strict=True):
            y = self._convolve(part, block, self._activate(x, (block.name, 1, turn)), (block.name, 1, turn), dilation)
            y = self._convolve(part, block, self._activate(y, (block.name, 2, turn)), (block.name, 2, turn), 1)
            x = self._write("Add", x, y)
        return x

    def _activate(self, x: str, key: Key) -> str:
        """Normalised and activated, 2α times as large and less 1."""
        factor, addend = self._factors[key]
        u = self._write("Add", self._write("Mul", x, factor), addend)
        return self._write("Sub", u, self._write("Cos", u))

    def _convolve(self, part: Part, block: Block, x: str, key: Key, dilation: int) -> str:
        write = self._write
        # Silence is -1 here: see _activate.  What lies beyond the last row fills its tile.
        before, after = block.taps // 2 * dilation, (block.taps // 2 + block.tile) * dilation
        silence = [write.floats(np.full((rows, part.channels), -1)) for rows in (before, after)]
        padded = write("Concat", silence[0], x, silence[1], axis=0)
        kind = (part.index, block.taps, dilation)
        if kind not in self._rows:
            self._rows[kind] = self._tile_rows(block, x, dilation)
        taken, order = self._rows[kind]
        products = self._tiled(part, block, write("Gather", padded, taken, axis=0), key)
        return write("Gather", products, order, axis=0)

    def _tiled(self, part: Part, block: Block, x: str, key: Key) -> str:
        write, n, tile = self._write, part.channels, make_tile(block.tile, block.taps)
        products = len(tile.weights)
        weight = write(
            "MatMul", write.floats(tile.weights), write("Reshape", self._weight(key), write.ints(block.taps, -1))
        )
        weight = write("Reshape", weight, write.ints(products, n, n))
        x = write("MatMul", write.floats(tile.inputs), write("Reshape", x, write.ints(block.tile, -1)))
        x = write("MatMul", write("Reshape", x, write.ints(products, -1, n)), weight)
        x = write("MatMul", write.floats(tile.outputs), write("Reshape", x, write.ints(products, -1)))
        return write("Reshape", x, write.ints(-1, n))

    def _weight(self, key: Key) -> str:
        """(taps, in, out), still in 8 bits in the file: onnxruntime works it out while it loads."""
        write = self._write
        weight, zero, scale = self._published.convolution(_layer(key))
        x = write("Cast", write.constant(weight.transpose(2, 1, 0)), to=TensorProto.FLOAT)
        x = write("Sub", x, write.floats(zero))
        return write("Mul", x, write.floats(scale / self._doubled(key)[:, None]))

    def _tile_rows(self, block: Block, x: str, dilation: int) -> tuple[str, str]:
        """Which rows make the tiles, (size, tiles, dilation), and where in the results each row then lies, (rows,)."""
        write, rows = self._write, self._write("Shape", x, end=1)
        new = block.tile - block.taps + 1
        step = write.ints(new * dilation)
        tiles = write("Div", write("Add", rows, write.ints(new * dilation - 1)), step)
        starts = write("Reshape", write("Mul", self._count_to(tiles), step), write.ints(1, -1, 1))
        within = np.arange(block.tile * dilation).reshape(block.tile, 1, dilation)
        taken = write("Add", starts, write.constant(within))
        results = write("Reshape", self._count_to(write("Mul", tiles, step)), write.ints(new, -1, dilation))
        order = write("Reshape", write("Transpose", results, perm=[1, 0, 2]), write.ints(-1))
        return taken, write("Slice", order, write.ints(0), rows)

    def _count_to(self, end: str) -> str:
        write = self._write
        zero, one = write.constant(np.array(0)), write.constant(np.array(1))
        return write("Range", zero, write("Squeeze", end), one)

    def _write_factors(self) -> dict[Key, tuple[str, str]]:
        """Every normalisation at once, as a factor and an addend for each channel, (1, channels)."""
        write, published = self._write, self._published
        norms = [norm for part in self._parts for norm in _norms_of(part)]
        keys = [key for key, _, _ in norms]
        sizes = [channels for _, channels, _ in norms]
        weights, biases = zip(*(published.style(key) for key in keys), strict=True)
        styles = np.concatenate([np.stack(np.split(weight, 2, axis=1)) for weight in weights], axis=2)  # (2, 128, all)
        bases = np.concatenate([np.stack(np.split(bias, 2)) for bias in biases], axis=1)
        gain, shift = (
            write("Add", write("MatMul", _STYLE, write.floats(style)), write.floats(base))
            for style, base in zip(styles, bases + np.array([[1], [0]]), strict=True)
        )
        measured = write("Reshape", NORMS, write.ints(1, -1))
        rows = [norm_rows(*source) for _, _, source in norms]
        mean, variance = (
            write("Gather", measured, write.constant(np.concatenate(each)), axis=1) for each in zip(*rows, strict=True)
        )
        doubled = write.floats(np.concatenate([self._doubled(key) for key in keys]))
        factor = write("Div", gain, write("Sqrt", write("Add", variance, write.floats(_EPSILON))))
        missing = write.floats(np.concatenate([self._missing(key) for key in keys]))
        addend = write("Add", write("Mul", write("Sub", missing, mean), factor), shift)
        factors, addends = (write.split(write("Mul", each, doubled), sizes, 1) for each in (factor, addend))
        return dict(zip(keys, zip(factors, addends, strict=True), strict=True))

    def _missing(self, key: Key) -> Array:
        """The biases before a normalisation, which nothing has added."""
        block, half, turn = key
        if half == 2:
            return self._bias((block, 1, turn))
        return self._residual_bias(block, range(turn)) + np.zeros_like(self._doubled(key))

    def block_bias(self, block: Block) -> Array:
        return self._residual_bias(block.name, _TURNS)

    def _residual_bias(self, block: str, turns: Iterable[int]) -> Array:
        total: Array = np.zeros(1)
        for turn in turns:
            total = total + self._bias((block, 2, turn))
        return total

    def _bias(self, key: Key) -> Array:
        """A convolution's bias, and what the activation before it owes it: see _activate."""
        weight = _dequantised(*self._published.convolution(_layer(key))).astype(np.float64)
        bias: Array = self._published.bias(_layer(key)) + (weight / self._doubled(key)[:, None]).sum(axis=(1, 2))
        return bias

    def _doubled(self, key: Key) -> Array:
        doubled: Array = 2 * self._published.alpha(key)
        return doubled


def _norms_of(part: Part) -> Iterator[tuple[Key, int, Key]]:
    """Each normalisation, its channels, and the one whose mean and variance it has: three see the same sound."""
    for block, turn, half in product((part.noise, *part.blocks), _TURNS, _HALVES):
        same = block in part.blocks and (half, turn) == (1, 0)
        yield (block.name, half, turn), part.channels, ((part.blocks[0] if same else block).name, half, turn)


def _layer(key: Key) -> str:
    block, half, turn = key
    return f"{block}/convs{half}.{turn}"


def _dequantised(weight: Array, zero: Array, scale: Array) -> Array:
    values: Array = (weight.astype(np.float32) - zero.astype(np.float32)) * scale
    return values
