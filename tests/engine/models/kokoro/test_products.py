"""A convolution made a product gives the same integers, and what cannot be one is left alone."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from realtime_tts.engine.models.kokoro.products import multiply_convolutions


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


@pytest.mark.parametrize("taps", [1, 3, 5])
@pytest.mark.parametrize("rows", [1, 2, 30])
def test_the_integers_are_the_same(taps: int, rows: int) -> None:
    model = convolution(taps)
    x = np.random.default_rng(rows).integers(0, 256, (1, 20, rows), dtype=np.uint8)
    expected = run(model, x)
    assert multiply_convolutions(model) == 1
    assert not any(node.op_type == "ConvInteger" for node in model.graph.node)
    assert "w" not in {constant.name for constant in model.graph.initializer}
    np.testing.assert_array_equal(run(model, x), expected)


@pytest.mark.parametrize(
    "model",
    [
        convolution(3, strides=[2]),
        convolution(3, dilations=[3]),
        convolution(3, pads=[0, 0]),
        convolution(2),
        convolution(3, channels=1),
    ],
    ids=["strided", "dilated", "shorter", "even", "narrow"],
)
def test_others_are_left_alone(model: onnx.ModelProto) -> None:
    before = model.SerializeToString(deterministic=True)
    assert multiply_convolutions(model) == 0
    assert model.SerializeToString(deterministic=True) == before
