"""Tests of the reader of the exported generator and of the writer of new nodes."""

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from realtime_tts.engine.models.kokoro.onnx_rewrite.graph import (
    GENERATOR,
    ExportedGenerator,
    GraphWriter,
    norm_rows,
    replace_nodes,
)
from realtime_tts.engine.models.kokoro.onnx_rewrite.streaming_inputs import NORM_CHANNELS, NORM_SIZES

Constants = dict[str, npt.NDArray[np.generic]]

WEIGHTS = "decoder.decoder.generator"


def graph_of(nodes: list[onnx.NodeProto], constants: Constants) -> onnx.GraphProto:
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    return helper.make_graph(
        nodes, "exported", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])], tensors
    )


def test_a_convolution_is_read_with_its_zero_point_and_scale() -> None:
    output = f"{GENERATOR}/resblocks.1/convs1.0/Conv_output_0_output_quantized"
    node = helper.make_node("ConvInteger", ["x", "odd_quantized", "x_zero", "shared_zero"], [output])
    constants: Constants = {
        "odd_quantized": np.arange(6, dtype=np.uint8).reshape(1, 2, 3),
        "shared_zero": np.array(3, dtype=np.uint8),
        "odd_scale": np.array(0.5, dtype=np.float32),
        f"{WEIGHTS}.resblocks.1.convs1.0.bias": np.array([7], dtype=np.float32),
    }
    exported = ExportedGenerator(graph_of([node], constants))
    weight, zero, scale = exported.convolution("resblocks.1/convs1.0")
    assert (weight.shape, int(zero), float(scale)) == ((1, 2, 3), 3, 0.5)
    assert exported.bias("resblocks.1/convs1.0").tolist() == [7]


def test_a_style_layer_is_read_in_float() -> None:
    output = f"{GENERATOR}/resblocks.1/adain2.0/fc/Gemm_output_0_MatMul_output_quantized"
    node = helper.make_node("MatMulInteger", ["s", "w", "s_zero", "w_zero"], [output])
    layer = f"{WEIGHTS}.resblocks.1.adain2.0.fc"
    constants: Constants = {
        "w": np.array([[1, 2], [3, 4]], dtype=np.int8),
        "w_zero": np.array([1, 0], dtype=np.int8),
        f"{layer}.weight_scale": np.array([2, 10], dtype=np.float32),
        f"{layer}.bias": np.array([5, 6], dtype=np.float32),
    }
    weight, bias = ExportedGenerator(graph_of([node], constants)).style(("resblocks.1", 2, 0))
    assert weight.tolist() == [[0, 20], [4, 40]]
    assert bias.tolist() == [5, 6]


def test_a_missing_layer_is_named_in_the_error() -> None:
    with pytest.raises(KeyError, match=r"resblocks\.1/convs1\.0"):
        ExportedGenerator(graph_of([], {})).convolution("resblocks.1/convs1.0")


def test_every_normalisation_has_its_own_rows() -> None:
    keys = [
        (block, half, layer)
        for block in ("noise_res.0", "noise_res.1", "resblocks.0", "resblocks.3")
        for half in (1, 2)
        for layer in range(3)
    ]
    used = [row for key in keys for rows in norm_rows(key) for row in rows]
    assert len(set(used)) == len(used)
    assert max(used) < NORM_CHANNELS
    mean, variance = norm_rows(("resblocks.3", 2, 1))
    assert len(mean) == len(variance) == NORM_SIZES[f"{GENERATOR}/resblocks.3/adain2.1/ReduceMean_output_0"]


def test_names_are_unique() -> None:
    write = GraphWriter("test")
    x = write("Add", write.floats([1.0]), write.ints(2), output="mine")
    write.split(x, [1, 2], 0)
    write("Neg", write("Neg", x))
    names = [name for node in write.nodes for name in node.output] + [constant.name for constant in write.constants]
    assert len(set(names)) == len(names) == 8
    assert "mine" in names


def test_replaced_nodes_keep_only_the_constants_that_they_use() -> None:
    graph = graph_of([helper.make_node("Neg", ["old"], ["y"])], {"old": np.zeros(1), "shared": np.ones(1)})
    write = GraphWriter("test")
    write.floats([3.0])
    new = write.floats([2.0])
    write("Add", "shared", new, output="y")
    replace_nodes(graph, write.nodes, write)
    assert [node.op_type for node in graph.node] == ["Add"]
    assert [constant.name for constant in graph.initializer] == ["shared", new]
