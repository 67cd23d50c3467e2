"""The vocoder is told the phase and the normalisations, and nothing else in it changes."""

import onnx
from onnx import TensorProto, helper

from realtime_tts.engine.models.kokoro import steady


def small_vocoder() -> onnx.ModelProto:
    """The two places that are changed, in the least graph that has them."""
    nodes = [helper.make_node("ReduceMean", ["x"], [name], name=f"mean of {name}") for name in steady.NORM_SIZES]
    nodes.append(helper.make_node("CumSum", ["x", "axis"], [steady.PHASE_SUM]))
    nodes.append(helper.make_node("Identity", [steady.PHASE_SUM], ["audio"]))
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n", 9])],
        [helper.make_tensor_value_info("audio", TensorProto.FLOAT, [1, "n", 9])],
        [helper.make_tensor("axis", TensorProto.INT64, [], [1])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def test_the_phase_and_the_norms_become_inputs() -> None:
    model = small_vocoder()
    steady.make_steady(model)
    onnx.checker.check_model(model)
    assert [value.name for value in model.graph.input] == ["x", steady.PHASE, steady.NORMS]
    assert not any(node.op_type == "ReduceMean" for node in model.graph.node)


def test_the_norms_can_be_shown_for_measuring() -> None:
    model = small_vocoder()
    steady.show_norms(model)
    assert [value.name for value in model.graph.output] == ["audio", steady.NORMS]


def test_the_layout_counts_what_it_lists() -> None:
    assert len(steady.NORM_SIZES) == 108
    assert sum(steady.NORM_SIZES.values()) == steady.NORM_CHANNELS == 35_860
