"""Worker process with the reference implementation of Qwen3-TTS: one JSON line in, one JSON line out.

Used by bench.qwen3_tts_vs_reference.  It runs in an environment of its own (bench/qwen3_tts_goldens.py names the
packages), so it imports nothing of this project.
"""

import importlib.machinery
import importlib.util
import json
import os
import sys
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


UNUSED_MODULES = ("torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi", "onnxruntime", "sox")
"""Imported by the reference for a codec that is not used here."""


class Model(Protocol):
    """The part of `qwen_tts.Qwen3TTSModel` that is used."""

    def generate_custom_voice(
        self, text: list[str], speaker: str, language: str, *, max_new_tokens: int
    ) -> "tuple[list[npt.NDArray[np.float32]], int]": ...


@dataclass(frozen=True, slots=True)
class Worker:
    """`seed` initialises the one random generator of the reference."""

    model: Model
    seed: Callable[[int], object]
    save: "Callable[[str, npt.NDArray[np.float32]], object]"

    def answer(
        self, texts: list[str], speaker: str, language: str, frames: int, seed: int, wave: str
    ) -> dict[str, Any]:
        """Wall and CPU seconds of one call for all texts, and the number of samples of each.

        Writes the audio of the first text to the file `wave`, unless that is empty.
        """
        self.seed(seed)
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        # The last token never becomes a frame.
        waves, _ = self.model.generate_custom_voice(texts, speaker, language, max_new_tokens=frames + 1)
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        if wave:
            self.save(wave, waves[0])
        return {"wall_s": wall_s, "cpu_s": cpu_s, "samples": [len(wave) for wave in waves]}


def serve(worker: Worker, requests: TextIO, answers: TextIO) -> None:
    """Answers requests until the end of the input."""
    for line in requests:
        answers.write(json.dumps(worker.answer(**json.loads(line))) + "\n")
        answers.flush()


def provide_empty_modules(*names: str) -> None:
    """Provides empty modules that the reference imports for another codec, unless they are installed."""
    installed = {root for name in names if importlib.util.find_spec(root := name.partition(".")[0])}
    for name in names:
        parent, _, child = name.rpartition(".")
        if name.partition(".")[0] in installed:
            continue
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        module.__path__ = []
        sys.modules[name] = module
        if parent:
            vars(sys.modules[parent])[child] = module


def main(arguments: Sequence[str]) -> None:
    directory, threads, device, dtype = arguments
    # The reference and its libraries print to the standard output, which is reserved for answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    provide_empty_modules(*UNUSED_MODULES)
    import numpy as np
    import torch
    import transformers
    from qwen_tts import Qwen3TTSModel

    torch.set_num_threads(int(threads))
    transformers.logging.set_verbosity_error()
    model = Qwen3TTSModel.from_pretrained(directory, dtype=vars(torch)[dtype], device_map=device)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    answers.write(json.dumps(versions | {"attention": model.model.talker.config._attn_implementation}) + "\n")
    answers.flush()
    serve(Worker(model, torch.manual_seed, np.save), sys.stdin, answers)


if __name__ == "__main__":
    main(sys.argv[1:])
