"""Split of the exported graph into an acoustic graph (phonemes to frames) and a vocoder graph (frames to sound)."""

from pathlib import Path

import onnx
from onnx.utils import extract_model

from realtime_tts.engine.models.kokoro.onnx_rewrite.streaming_inputs import NORM_SIZES, PHASE_SUM
from realtime_tts.errors import ModelNotUsable

# The tensors between the two: 92% of the computation comes after them, and each has one column per frame (F0 and
# NOISE two).  `style` is an input of both graphs.
TEXT_FEATURES = "/encoder/MatMul_1_output_0"  # (1, 512, frames)
F0 = "/encoder/Reshape_output_0"  # (1, 2 * frames)
NOISE = "/encoder/Reshape_1_output_0"  # (1, 2 * frames)
DURATIONS = "/encoder/Clip_output_0"  # (1, tokens): whole frames, at least 1, already divided by the speed
ACOUSTIC_INPUTS, ACOUSTIC_OUTPUTS = ["tokens", "style", "speed"], [TEXT_FEATURES, F0, NOISE, DURATIONS]
VOCODER_INPUTS, VOCODER_OUTPUTS = [TEXT_FEATURES, F0, NOISE, "style"], ["audio"]


def extract_acoustic(whole: Path, to: Path) -> None:
    # check_model is off: the export declares no opset for its Microsoft operators, which the checker rejects and
    # onnxruntime does not.
    extract_model(whole, to, ACOUSTIC_INPUTS, ACOUSTIC_OUTPUTS, check_model=False)


def extract_vocoder(whole: Path, to: Path) -> onnx.ModelProto:
    """The vocoder graph as exported; `to` is a scratch file."""
    extract_model(whole, to, VOCODER_INPUTS, VOCODER_OUTPUTS, check_model=False)
    return onnx.load(to)


def check_layout(path: Path) -> None:
    """Raises ModelNotUsable, which names the missing tensors, where the split and its first pass cannot work."""
    try:
        graph = onnx.load(path).graph
    except Exception as error:  # protobuf raises undocumented classes of its own
        raise ModelNotUsable(f"{path.name} is not an ONNX model: {error}") from error
    present = {value.name for value in (*graph.input, *graph.output)}
    present.update(name for node in graph.node for name in node.output)
    wanted = [*ACOUSTIC_INPUTS, *ACOUSTIC_OUTPUTS, *VOCODER_INPUTS, *VOCODER_OUTPUTS, PHASE_SUM, *NORM_SIZES]
    if missing := list(dict.fromkeys(name for name in wanted if name not in present)):
        raise unexpected_layout(path.name, ", ".join(missing[:5]))


def unexpected_layout(name: str, missing: str) -> ModelNotUsable:
    return ModelNotUsable(
        f"{name} is not a Kokoro-82M export of the expected layout: no {missing}"
        " (--set rewrite=false runs an export of any layout)"
    )
