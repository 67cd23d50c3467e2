"""Tests of the conversion of convolutions: the same integers, and no change where it does not apply."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from realtime_tts.engine.models.kokoro.onnx_rewrite.conv_to_matmul import convert_convolutions


def convolution(taps: int, *, channels: int = 20, **attributes: Any) -> onnx.ModelProto:
    rng = np.random.default_rng(taps)
    constants = {
        "w": rng.integers(0, 256, (24, channels, taps), dtype=np.uint8),
        "x_zero": np.array(90, dtype=np.uint8),
        "w_zero": np.array(131, dtype=np.uint8),
    }
    defaults: dict[str, Any] = {"strides": [1], "dilations": [1], "pads": [taps // 2] * 2}
    node = helper.make_node("ConvInteger", ["x", "w", "x_zero", "w_zero"], ["y"], **(defaults | attributes))
    graph = helper.make_graph(
        [node],
        "convolution",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, channels, "rows"])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def run(model: onnx.ModelProto, x: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    y: npt.NDArray[np.int32] = session.run(None, {"x": x})[0]
    return y


def test_a_converted_convolution_computes_the_same_integers() -> None:
    for taps in (1, 3, 5):
        exported, converted = convolution(taps), convolution(taps)
        assert convert_convolutions(converted) == 1
        assert not any(node.op_type == "ConvInteger" for node in converted.graph.node)
        assert "w" not in {constant.name for constant in converted.graph.initializer}
        for rows in (1, 2, 30):
            x = np.random.default_rng(rows).integers(0, 256, (1, 20, rows), dtype=np.uint8)
            np.testing.assert_array_equal(run(converted, x), run(exported, x), f"{taps} taps, {rows} rows")


def test_other_convolutions_are_not_changed() -> None:
    for reason, model in {
        "strided": convolution(3, strides=[2]),
        "dilated": convolution(3, dilations=[3]),
        "shorter": convolution(3, pads=[0, 0]),
        "even": convolution(2),
        "narrow": convolution(3, channels=1),
    }.items():
        before = model.SerializeToString(deterministic=True)
        assert convert_convolutions(model) == 0, reason
        assert model.SerializeToString(deterministic=True) == before, reason
