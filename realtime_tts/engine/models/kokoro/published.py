"""Reads the published graph's generator by what its parts are for, and adds nodes and constants to it."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from realtime_tts.engine.models.kokoro.steady import NORM_SIZES

Array = npt.NDArray[Any]

Key = tuple[str, int, int]
"""A convolution, and the normalisation before it: the residual block, the half (1 or 2), the turn (0 to 2)."""

GENERATOR = "/decoder/decoder/generator"
_TO_THE_END = 2**31
_WEIGHTS = "decoder.decoder.generator"


class Published:
    """The generator's constants.  Raises KeyError, with the name, where the graph lacks one."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._constants = {constant.name: constant for constant in graph.initializer}
        self._makers = makers(graph.node)

    def bias(self, layer: str) -> Array:
        return self._array(f"{_WEIGHTS}.{layer.replace('/', '.')}.bias")

    def alpha(self, key: Key) -> Array:
        block, half, turn = key
        return self._array(f"{_WEIGHTS}.{block}.alpha{half}.{turn}").reshape(-1)

    def convolution(self, layer: str) -> tuple[Array, Array, Array]:
        """Weights in 8 bits (out, in, taps), their zero and their scale."""
        node = self._makers[f"{GENERATOR}/{layer}/Conv_output_0_output_quantized"]
        weight, zero = node.input[1], node.input[3]
        return self._array(weight), self._array(zero), self._array(weight.removesuffix("_quantized") + "_scale")

    def upsampling(self, layer: str) -> Array:
        """Weights in float32, (in, out, taps)."""
        return self._array(self._makers[f"{GENERATOR}/{layer}/ConvTranspose_output_0"].input[1])

    def style(self, key: Key) -> tuple[Array, Array]:
        """What makes a normalisation's gain and shift from the style: (128, 2 * channels), and a bias."""
        block, half, turn = key
        node = self._makers[f"{GENERATOR}/{block}/adain{half}.{turn}/fc/Gemm_output_0_MatMul_output_quantized"]
        layer = f"{_WEIGHTS}.{block}.adain{half}.{turn}.fc"
        weight = self._array(node.input[1]).astype(np.float32) - self._array(node.input[3])
        return weight * self._array(f"{layer}.weight_scale"), self._array(f"{layer}.bias")

    def _array(self, name: str) -> Array:
        array: Array = numpy_helper.to_array(self._constants[name])
        return array


def norm_rows(block: str, half: int, turn: int) -> tuple[range, range]:
    """Where in NORMS the means and the variances of a normalisation lie."""
    name = f"{GENERATOR}/{block}/adain{half}.{turn}/ReduceMean"
    starts = dict(zip(NORM_SIZES, np.cumsum([0, *NORM_SIZES.values()]).tolist(), strict=False))
    rows = [range(starts[key], starts[key] + NORM_SIZES[key]) for key in (f"{name}_output_0", f"{name}_2_output_0")]
    return rows[0], rows[1]


class Writer:
    """Makes nodes and constants, and names them: a call adds a node and gives the name of what it makes."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        """What is being made: part of every name, for whoever profiles the graph."""
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def __call__(self, operator: str, *inputs: str, made: str | None = None, **attributes: Any) -> str:
        made = made or self._name()
        self.nodes.append(helper.make_node(operator, inputs, [made], name=made, **attributes))
        return made

    def split(self, x: str, sizes: Sequence[int], axis: int) -> list[str]:
        name = self._name()
        made = [f"{name}/{part}" for part in range(len(sizes))]
        self.nodes.append(helper.make_node("Split", [x, self.ints(*sizes)], made, name=name, axis=axis))
        return made

    def rows(self, x: str, start: int, end: int) -> str:
        """Rows `[start, end)` of the first axis; an end of 0 is the last row's."""
        return self("Slice", x, self.ints(start), self.ints(end or _TO_THE_END))

    def floats(self, array: npt.ArrayLike) -> str:
        return self.constant(np.asarray(array, dtype=np.float32))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def constant(self, array: Array) -> str:
        name = self._name()
        self.constants.append(numpy_helper.from_array(array.copy(), name))
        return name

    def _name(self) -> str:
        return f"rewritten/{self.scope}/{len(self.nodes)}/{len(self.constants)}"


def makers(nodes: Iterable[onnx.NodeProto]) -> dict[str, onnx.NodeProto]:
    """The node that makes each value."""
    return {name: node for node in nodes for name in node.output}
