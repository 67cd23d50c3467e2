"""Tests of the pass that adds the phase and the normalisation statistics as inputs."""

import onnx
from onnx import TensorProto, helper

from realtime_tts.engine.models.kokoro.onnx_rewrite import streaming_inputs


def small_vocoder() -> onnx.ModelProto:
    """The least graph that has the tensors that the pass changes."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], [name], name=f"mean of {name}") for name in streaming_inputs.NORM_SIZES
    ]
    nodes.append(helper.make_node("CumSum", ["x", "axis"], [streaming_inputs.PHASE_SUM]))
    nodes.append(helper.make_node("Identity", [streaming_inputs.PHASE_SUM], ["audio"]))
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n", 9])],
        [helper.make_tensor_value_info("audio", TensorProto.FLOAT, [1, "n", 9])],
        [helper.make_tensor("axis", TensorProto.INT64, [], [1])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def test_the_phase_and_the_statistics_become_inputs() -> None:
    model = small_vocoder()
    streaming_inputs.add_streaming_inputs(model)
    onnx.checker.check_model(model)
    assert [value.name for value in model.graph.input] == ["x", streaming_inputs.PHASE, streaming_inputs.NORMS]
    assert not any(node.op_type == "ReduceMean" for node in model.graph.node)


def test_the_statistics_can_become_an_output() -> None:
    model = small_vocoder()
    streaming_inputs.add_statistics_output(model)
    assert [value.name for value in model.graph.output] == ["audio", streaming_inputs.NORMS]


def test_the_list_of_statistics_is_complete() -> None:
    assert len(streaming_inputs.NORM_SIZES) == 108
    assert sum(streaming_inputs.NORM_SIZES.values()) == streaming_inputs.NORM_CHANNELS == 35_860
