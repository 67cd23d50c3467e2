"""Qwen3-Omni: a Thinker that answers text, audio and images with text, and a Talker and a codec that speak the answer.

Nothing heavy is imported before `build`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from realtime_tts.engine.api import ModelInfo
from realtime_tts.engine.models.qwen3.directory import Repository, find_directory
from realtime_tts.engine.models.qwen3_omni.config import MODEL_TYPE, read_config
from realtime_tts.engine.models.qwen3_omni.model_info import describe, model_name
from realtime_tts.engine.models.spec import ModelSpec, Report
from realtime_tts.engine.stage import Model
from realtime_tts.errors import ModelNotUsable

MAX_LEN = 4096
"""Positions of a slot of the Talker: the user turns and up to 327 s of speech."""
THINKER_MAX_LEN = 4096
"""Positions of a slot of the Thinker, 96 KiB each in the published size: the conversation and its answer."""
REQUIRED_PACKAGES = ("torch", "safetensors", "tokenizers")
REPOSITORY = Repository("qwen3_omni", "Qwen/Qwen3-Omni-30B-A3B-Instruct")


def _no_report(_line: str) -> None:
    pass


def info(model_dir: str | Path | None = None) -> ModelInfo:
    """Describes the model without loading its weights.  Raises ModelNotUsable, also without a `model_dir`."""
    directory, name = find_directory(REPOSITORY, model_dir, _no_report)
    return describe(read_config(directory), model_name(name), _modalities(True, True))


def _modalities(audio_input: bool, image_input: bool) -> frozenset[str]:
    return frozenset(name for name, accepts in (("audio", audio_input), ("image", image_input)) if accepts)


def build(
    *,
    model_dir: str | Path | None = None,
    device: str = "auto",
    thinker_device: str | None = None,
    dtype: str = "auto",
    slots: int | str | None = None,
    max_len: int = MAX_LEN,
    thinker_max_len: int = THINKER_MAX_LEN,
    audio_input: bool = True,
    image_input: bool = True,
    predictor_kv: str = "auto",
    graphs: bool | Literal["auto"] = "auto",
    threads: int | None = None,
    progress: Report = _no_report,
) -> Model:
    """Loads the model and speaks a word as a warm-up.

    `model_dir` is a directory in the published layout, or a Hugging Face id.  `device` is auto, cpu, cuda or cuda:N,
    and `thinker_device` that of the Thinker if it is another one.  `dtype` is float32, bfloat16, float16 or auto
    (bfloat16 on a GPU, float16 before Ampere, else float32).  `slots` is the number of conversations at once (None or
    "auto": what fits into the GPUs' memory, a few on a CPU), of `thinker_max_len` positions in the Thinker and
    `max_len` in the Talker.  Without `audio_input` or `image_input` that tower is not loaded.  `predictor_kv` says how
    the code predictor attends to the earlier codes of a frame: cache, recompute or auto (measured at loading).
    `graphs` captures CUDA graphs (auto: in bfloat16 on a GPU of compute capability 9.0 or more, others cannot capture
    the experts); on a CPU it selects the same code path without capture.  `threads` is the number of CPU threads.
    Raises ModelNotUsable.
    """
    directory, name = find_directory(REPOSITORY, model_dir, progress)
    config = read_config(directory)
    try:
        from realtime_tts.engine.models.qwen3_omni import loading
    except ModuleNotFoundError as error:
        if error.name not in REQUIRED_PACKAGES:
            raise
        raise ModelNotUsable(f"qwen3_omni needs {error.name}: pip install 'realtime-tts[torch]'") from None
    options = loading.load_options(
        device=device,
        thinker_device=thinker_device,
        dtype=dtype,
        slots=slots,
        max_len=max_len,
        thinker_max_len=thinker_max_len,
        audio_input=audio_input,
        image_input=image_input,
        predictor_kv=predictor_kv,
        graphs=graphs,
        threads=threads,
    )
    description = describe(config, model_name(name), _modalities(audio_input, image_input))
    return loading.load(directory, description, options, progress)


def _check(options: Mapping[str, Any], gpu_memory_gb: float | None, report: Report) -> None:
    from realtime_tts.engine.models.qwen3_omni.check import check_installation  # imports torch

    check_installation(options, gpu_memory_gb, report)


MODEL = ModelSpec(
    name="qwen3_omni",
    required_packages=REQUIRED_PACKAGES,
    build=build,
    info=info,
    loads_directories=True,
    model_type=MODEL_TYPE,
    hub_prefix="Qwen/Qwen3-Omni",
    check=_check,
)
