"""Makes the vocoder sound the same in chunks as in one piece, by telling it what a chunk alone does not show.

Two things in the published graph depend on the whole sentence, and go wrong in a chunk that is decoded on its own:

* The voice's harmonics start at phase 0 wherever the window starts, so that at a joint the old sound and the new
  cancel as often as they add up.  Here the phase at the window's start is an input.
* 108 normalisations take mean and variance over the window, so loudness and timbre jump from chunk to chunk.  Here
  they are inputs too: constants of the voice, measured over a few sentences of it (see make_voices).

DNSMOS overall on 8 sentences, af_heart and am_michael: undivided 3.42 and 3.42; in chunks as published, with 20 + 8
frames of context, 3.33 and 3.33; in chunks with both, with 10 + 5, 3.42 and 3.48.  Correlation with the undivided sound
went from 0.17 to 0.96.  `python -m bench.kokoro_quality` measures DNSMOS again.
"""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PHASE, NORMS = "phase", "norms"
"""The new inputs: (1, 1, 9) radians / 600 pi, one a harmonic; (1, NORM_CHANNELS, 1)."""

HARMONICS = 9
SAMPLES_PER_PHASE_STEP = 300
PHASE_SUM = "/decoder/decoder/generator/m_source/l_sin_gen/CumSum_output_0"

NORM_SIZES: dict[str, int] = json.loads((Path(__file__).parent / "norms.json").read_text(encoding="ascii"))
"""The tensors of means and variances, in the order in which they lie in NORMS, and their channels."""
NORM_CHANNELS = sum(NORM_SIZES.values())


def make_steady(vocoder: onnx.ModelProto) -> None:
    """Turns the phase and the normalisations into inputs, in place."""
    graph = vocoder.graph
    nodes = [node for node in graph.node if node.output[0] not in NORM_SIZES]
    at = next(index for index, node in enumerate(nodes) if node.output[0] == PHASE_SUM)
    own = f"{PHASE_SUM}/in_window"
    nodes[at].output[0] = own
    nodes.insert(at + 1, helper.make_node("Add", [own, PHASE], [PHASE_SUM]))
    nodes.insert(0, helper.make_node("Split", [NORMS, "norm_sizes"], list(NORM_SIZES), axis=1))
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.append(numpy_helper.from_array(np.array([*NORM_SIZES.values()], dtype=np.int64), "norm_sizes"))
    graph.input.append(helper.make_tensor_value_info(PHASE, TensorProto.FLOAT, [1, 1, HARMONICS]))
    graph.input.append(helper.make_tensor_value_info(NORMS, TensorProto.FLOAT, [1, NORM_CHANNELS, 1]))


def show_norms(vocoder: onnx.ModelProto) -> None:
    """Makes the published vocoder give its means and variances, to be measured: NORMS as an output, in place."""
    graph = vocoder.graph
    graph.node.append(helper.make_node("Concat", list(NORM_SIZES), [NORMS], axis=1))
    graph.output.append(helper.make_tensor_value_info(NORMS, TensorProto.FLOAT, [1, NORM_CHANNELS, 1]))
