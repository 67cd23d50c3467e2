"""Qwen3-TTS, 12 Hz: a Talker that makes sixteen codes a frame, and the codec that makes them sound.

Nothing heavy is imported before `build`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from realtime_tts.engine.api import ModelInfo
from realtime_tts.engine.models.qwen3_tts.about import describe, model_name
from realtime_tts.engine.models.qwen3_tts.config import read_config
from realtime_tts.engine.models.qwen3_tts.directory import find_directory
from realtime_tts.engine.stage import Model
from realtime_tts.errors import ModelNotUsable

MAX_LEN = 2048
"""Positions of a slot: a prompt of 300 leaves 140 s of speech."""
NEEDED = ("torch", "safetensors", "tokenizers")


def _silent(_line: str) -> None:
    pass


def info(model_dir: str | Path | None = None) -> ModelInfo:
    """What the model can do, without loading its weights.  Raises ModelNotUsable, also without a `model_dir`."""
    directory, name = find_directory(model_dir, _silent)
    config = read_config(directory)
    return describe(config, model_name(name, config))


def build(
    *,
    model_dir: str | Path | None = None,
    device: str = "auto",
    dtype: str = "auto",
    slots: int | str | None = None,
    max_len: int = MAX_LEN,
    recall: str = "auto",
    graphs: bool | Literal["auto"] = "auto",
    compiled: bool = False,
    code2wav: str = "stateful",
    context_frames: Literal[25, 72] = 25,
    threads: int | None = None,
    progress: Callable[[str], None] = _silent,
) -> Model:
    """Loads the model and speaks a word of warm-up.

    `model_dir` is a directory in the published layout, or a Hugging Face id.  `device` is auto, cpu, cuda or cuda:N;
    `dtype` float32, bfloat16, float16 or auto (bfloat16 on a GPU, float16 before Ampere, else float32).  `slots` is how
    many requests there is room for at once (left out, or "auto": what fits into a GPU's memory, a few on a CPU),
    of `max_len` positions each.  `recall` is auto (measured at loading), cache or repeat: how the codes after a frame's
    first see one another.  `graphs` captures CUDA graphs at loading (auto: on a GPU); on a CPU it only takes the same
    way.  `compiled` has torch.compile make the Talker's kernels, which takes minutes.  `code2wav` is stateful, or
    windowed for comparison, with `context_frames` decoded again before each chunk.  `threads` is how many a CPU may
    use.  Raises ModelNotUsable.
    """
    directory, name = find_directory(model_dir, progress)
    config = read_config(directory)
    try:
        from realtime_tts.engine.models.qwen3_tts import loading
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        raise ModelNotUsable(f"qwen3_tts needs {error.name}: pip install 'realtime-tts[torch]'") from None
    wishes = loading.wishes(
        device=device,
        dtype=dtype,
        slots=slots,
        max_len=max_len,
        recall=recall,
        graphs=graphs,
        compiled=compiled,
        code2wav=code2wav,
        context_frames=context_frames,
        threads=threads,
    )
    return loading.load(directory, describe(config, model_name(name, config)), wishes, progress)
