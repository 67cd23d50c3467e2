"""Extra inputs of the vocoder, phase and normalisation statistics, so that chunks sound like the whole sentence.

Two parts of the exported graph depend on the whole sentence and are wrong in a chunk that is decoded alone:

* The voice's harmonics start at phase 0 wherever the window starts, so at a joint the old sound and the new cancel as
  often as they add up.  Here the phase at the window's start is an input.
* 108 normalisations compute mean and variance over the window, so loudness and timbre jump from chunk to chunk.  Here
  both are inputs too: of the voice and the length of the text, measured over its sentences (see make_voices).

DNSMOS overall on 8 sentences, af_heart and am_michael: undivided 3.42 and 3.42; in chunks as exported, with 20 + 8
frames of context, 3.33 and 3.33; in chunks with both inputs, with 10 + 5, 3.42 and 3.48.  Correlation with the
undivided sound rose from 0.17 to 0.96.  `python -m bench.kokoro_quality` measures DNSMOS again.
"""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PHASE, NORMS = "phase", "norms"
"""The new inputs: (1, 1, 9) radians / 600 pi, one per harmonic; (1, NORM_CHANNELS, 1)."""

HARMONICS = 9
SAMPLES_PER_PHASE_STEP = 300
PHASE_SUM = "/decoder/decoder/generator/m_source/l_sin_gen/CumSum_output_0"

NORM_SIZES: dict[str, int] = json.loads((Path(__file__).parent / "norms.json").read_text(encoding="ascii"))
"""The tensors of means and variances and their channels, in the order of the rows of NORMS."""
NORM_CHANNELS = sum(NORM_SIZES.values())


def add_streaming_inputs(vocoder: onnx.ModelProto) -> None:
    """Makes the phase and the normalisation statistics inputs, in place."""
    graph = vocoder.graph
    nodes = [node for node in graph.node if node.output[0] not in NORM_SIZES]
    at = next(index for index, node in enumerate(nodes) if node.output[0] == PHASE_SUM)
    in_window = f"{PHASE_SUM}/in_window"
    nodes[at].output[0] = in_window
    nodes.insert(at + 1, helper.make_node("Add", [in_window, PHASE], [PHASE_SUM]))
    nodes.insert(0, helper.make_node("Split", [NORMS, "norm_sizes"], list(NORM_SIZES), axis=1))
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.append(numpy_helper.from_array(np.array([*NORM_SIZES.values()], dtype=np.int64), "norm_sizes"))
    graph.input.append(helper.make_tensor_value_info(PHASE, TensorProto.FLOAT, [1, 1, HARMONICS]))
    graph.input.append(helper.make_tensor_value_info(NORMS, TensorProto.FLOAT, [1, NORM_CHANNELS, 1]))


def add_statistics_output(vocoder: onnx.ModelProto) -> None:
    """Makes NORMS an output of the exported vocoder, in place: the means and variances of a sentence, to measure."""
    graph = vocoder.graph
    graph.node.append(helper.make_node("Concat", list(NORM_SIZES), [NORMS], axis=1))
    graph.output.append(helper.make_tensor_value_info(NORMS, TensorProto.FLOAT, [1, NORM_CHANNELS, 1]))
