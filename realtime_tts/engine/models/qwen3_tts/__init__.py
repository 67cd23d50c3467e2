"""Qwen3-TTS, 12 Hz: a Talker that generates sixteen codes per frame, and the codec that decodes them to audio.

Nothing heavy is imported before `build`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from realtime_tts.engine.api import ModelInfo
from realtime_tts.engine.models.qwen3_tts.config import read_config
from realtime_tts.engine.models.qwen3_tts.directory import find_directory
from realtime_tts.engine.models.qwen3_tts.model_info import describe, model_name
from realtime_tts.engine.models.spec import ModelSpec, Report
from realtime_tts.engine.stage import Model
from realtime_tts.errors import ModelNotUsable

MAX_LEN = 2048
"""Positions of a slot: a prompt of 300 leaves 140 s of speech."""
REQUIRED_PACKAGES = ("torch", "safetensors", "tokenizers")


def _no_report(_line: str) -> None:
    pass


def info(model_dir: str | Path | None = None) -> ModelInfo:
    """Describes the model without loading its weights.  Raises ModelNotUsable, also without a `model_dir`."""
    directory, name = find_directory(model_dir, _no_report)
    config = read_config(directory)
    return describe(config, model_name(name, config))


def build(
    *,
    model_dir: str | Path | None = None,
    device: str = "auto",
    dtype: str = "auto",
    slots: int | str | None = None,
    max_len: int = MAX_LEN,
    predictor_kv: str = "auto",
    graphs: bool | Literal["auto"] = "auto",
    compiled: bool = False,
    code2wav: str = "stateful",
    context_frames: Literal[25, 72] = 25,
    threads: int | None = None,
    progress: Report = _no_report,
) -> Model:
    """Loads the model and runs one word through it as a warm-up.

    `model_dir` is a directory in the published layout, or a Hugging Face id.  `device` is auto, cpu, cuda or cuda:N;
    `dtype` float32, bfloat16, float16 or auto (bfloat16 on a GPU, float16 before Ampere, else float32).  `slots` is the
    number of requests that run at once (None or "auto": what fits into a GPU's memory, a few on a CPU), of `max_len`
    positions each.  `predictor_kv` says how the code predictor attends to the earlier codes of a frame: cache,
    recompute or auto (measured at loading).  `graphs` captures CUDA graphs at loading (auto: on a GPU); on a CPU it
    selects the same code path without capture.  `compiled` builds the Talker's kernels with torch.compile, which takes
    minutes.  `code2wav` is stateful, or windowed for comparison, with `context_frames` decoded again before each chunk.
    `threads` is the number of CPU threads.  Raises ModelNotUsable.
    """
    directory, name = find_directory(model_dir, progress)
    config = read_config(directory)
    try:
        from realtime_tts.engine.models.qwen3_tts import loading
    except ModuleNotFoundError as error:
        if error.name not in REQUIRED_PACKAGES:
            raise
        raise ModelNotUsable(f"qwen3_tts needs {error.name}: pip install 'realtime-tts[torch]'") from None
    options = loading.load_options(
        device=device,
        dtype=dtype,
        slots=slots,
        max_len=max_len,
        predictor_kv=predictor_kv,
        graphs=graphs,
        compiled=compiled,
        code2wav=code2wav,
        context_frames=context_frames,
        threads=threads,
    )
    return loading.load(directory, describe(config, model_name(name, config)), options, progress)


def _check(options: Mapping[str, Any], gpu_memory_gb: float | None, report: Report) -> None:
    from realtime_tts.engine.models.qwen3_tts.check import check_installation  # imports torch

    check_installation(options, gpu_memory_gb, report)


MODEL = ModelSpec(
    name="qwen3_tts",
    required_packages=REQUIRED_PACKAGES,
    build=build,
    info=info,
    loads_directories=True,
    check=_check,
)
