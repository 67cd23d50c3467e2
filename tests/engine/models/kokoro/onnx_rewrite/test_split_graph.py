"""Tests of the check of an export's layout."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from realtime_tts.engine.models.kokoro.onnx_rewrite.split_graph import check_layout, extract_acoustic, extract_vocoder
from realtime_tts.engine.models.kokoro.weights import MODEL_NAME, find_weights
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.kokoro.conftest import real_voice


def test_a_file_that_is_not_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / MODEL_NAME).write_bytes(b"\xff" * 40)
    with pytest.raises(ModelNotUsable, match="is not an ONNX model"):
        check_layout(tmp_path / MODEL_NAME)


def test_the_tensors_that_another_layout_lacks_are_named(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("tokens", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["tokens"], ["audio"])], "g", [value], [])
    onnx.save(helper.make_model(graph), tmp_path / MODEL_NAME)
    with pytest.raises(ModelNotUsable, match=r"/encoder/MatMul_1_output_0.*rewrite=false"):
        check_layout(tmp_path / MODEL_NAME)


@pytest.mark.slow
@real_voice
def test_every_node_of_the_export_is_in_one_of_the_two_graphs(tmp_path: Path) -> None:
    whole = tmp_path / MODEL_NAME
    find_weights().write_to(whole)
    check_layout(whole)
    extract_acoustic(whole, tmp_path / "acoustic.onnx")
    acoustic = {node.output[0] for node in onnx.load(tmp_path / "acoustic.onnx").graph.node}
    vocoder = {node.output[0] for node in extract_vocoder(whole, tmp_path / "vocoder.onnx").graph.node}
    exported = {node.output[0] for node in onnx.load(whole).graph.node}
    assert acoustic | vocoder == exported
