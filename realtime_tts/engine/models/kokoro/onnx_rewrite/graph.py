"""Reader of the exported generator's constants, and writer of new ONNX nodes."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from realtime_tts.engine.models.kokoro.onnx_rewrite.streaming_inputs import NORM_SIZES

Array = npt.NDArray[Any]

LayerKey = tuple[str, int, int]
"""A convolution of a residual block and the normalisation before it: block name, half (1 or 2), layer (0 to 2)."""

GENERATOR = "/decoder/decoder/generator"
_WEIGHTS = "decoder.decoder.generator"
_END_OF_AXIS = 2**31


class ExportedGenerator:
    """The generator's constants by layer.  Raises KeyError, with the name, where the graph lacks one."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._constants = {constant.name: constant for constant in graph.initializer}
        self._producers = {name: node for node in graph.node for name in node.output}

    def bias(self, layer: str) -> Array:
        return self._array(f"{_WEIGHTS}.{layer.replace('/', '.')}.bias")

    def alpha(self, key: LayerKey) -> Array:
        block, half, layer = key
        return self._array(f"{_WEIGHTS}.{block}.alpha{half}.{layer}").reshape(-1)

    def convolution(self, layer: str) -> tuple[Array, Array, Array]:
        """8-bit weights (out, in, taps), their zero point and their scale."""
        node = self._producers[f"{GENERATOR}/{layer}/Conv_output_0_output_quantized"]
        weight, zero = node.input[1], node.input[3]
        return self._array(weight), self._array(zero), self._array(weight.removesuffix("_quantized") + "_scale")

    def upsampling(self, layer: str) -> Array:
        """float32 weights, (in, out, taps)."""
        return self._array(self._producers[f"{GENERATOR}/{layer}/ConvTranspose_output_0"].input[1])

    def style(self, key: LayerKey) -> tuple[Array, Array]:
        """The linear layer from the style to a normalisation's gain and shift: (128, 2 * channels), and its bias."""
        block, half, layer = key
        name = f"adain{half}.{layer}/fc"
        node = self._producers[f"{GENERATOR}/{block}/{name}/Gemm_output_0_MatMul_output_quantized"]
        constants = f"{_WEIGHTS}.{block}.{name.replace('/', '.')}"
        weight = self._array(node.input[1]).astype(np.float32) - self._array(node.input[3])
        return weight * self._array(f"{constants}.weight_scale"), self._array(f"{constants}.bias")

    def _array(self, name: str) -> Array:
        array: Array = numpy_helper.to_array(self._constants[name])
        return array


def norm_rows(key: LayerKey) -> tuple[range, range]:
    """The rows of the input NORMS that contain a normalisation's means and its variances."""
    block, half, layer = key
    name = f"{GENERATOR}/{block}/adain{half}.{layer}/ReduceMean"
    offsets = dict(zip(NORM_SIZES, np.cumsum([0, *NORM_SIZES.values()]).tolist(), strict=False))
    means, variances = f"{name}_output_0", f"{name}_2_output_0"
    return (
        range(offsets[means], offsets[means] + NORM_SIZES[means]),
        range(offsets[variances], offsets[variances] + NORM_SIZES[variances]),
    )


class GraphWriter:
    """Collects new nodes and constants.  A call adds a node and returns the name of its output."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        """Part of every new name, so that a profile shows which layer a node belongs to."""
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def __call__(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        output = output or self._new_name()
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def split(self, x: str, sizes: Sequence[int], axis: int) -> list[str]:
        name = self._new_name()
        outputs = [f"{name}/{index}" for index in range(len(sizes))]
        self.nodes.append(helper.make_node("Split", [x, self.ints(*sizes)], outputs, name=name, axis=axis))
        return outputs

    def rows(self, x: str, start: int, end: int) -> str:
        """Rows `[start, end)` of the first axis; an end of 0 means up to the last row."""
        return self("Slice", x, self.ints(start), self.ints(end or _END_OF_AXIS))

    def floats(self, array: npt.ArrayLike) -> str:
        return self.constant(np.asarray(array, dtype=np.float32))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def constant(self, array: Array) -> str:
        name = self._new_name()
        self.constants.append(numpy_helper.from_array(array.copy(), name))
        return name

    def _new_name(self) -> str:
        return f"rewritten/{self.scope}/{len(self.nodes)}/{len(self.constants)}"


def replace_nodes(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto], writer: GraphWriter) -> None:
    """Makes `nodes` the graph's only nodes, and keeps those of its and the writer's constants that they use."""
    kept = list(nodes)
    used = {name for node in kept for name in node.input}
    constants = [constant for constant in (*graph.initializer, *writer.constants) if constant.name in used]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(kept)
    graph.initializer.extend(constants)
