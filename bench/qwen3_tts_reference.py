"""Process with the reference implementation, which answers a line of JSON with another, for
bench.qwen3_tts_vs_reference.

Runs in an environment of its own (see bench/qwen3_tts_goldens.py), so it imports nothing of ours.
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


class Model(Protocol):
    """The part of `qwen_tts.Qwen3TTSModel` that is used."""

    def generate_custom_voice(
        self, text: list[str], speaker: str, language: str, *, max_new_tokens: int
    ) -> "tuple[list[npt.NDArray[np.float32]], int]": ...


@dataclass(frozen=True, slots=True)
class Worker:
    """`seed` seeds the one generator that the reference draws from."""

    model: Model
    seed: Callable[[int], object]
    save: "Callable[[str, npt.NDArray[np.float32]], object]"

    def answer(
        self, texts: list[str], speaker: str, language: str, frames: int, seed: int, wave: str
    ) -> dict[str, Any]:
        """Wall and processor seconds of one call for all texts, and the number of samples of each.

        The first text's audio is written to the file `wave`, unless that is empty.
        """
        self.seed(seed)
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        # The last token is never a frame.
        waves, _ = self.model.generate_custom_voice(texts, speaker, language, max_new_tokens=frames + 1)
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        if wave:
            self.save(wave, waves[0])
        return {"wall_s": wall_s, "cpu_s": cpu_s, "samples": [len(wave) for wave in waves]}


def serve(worker: Worker, requests: TextIO, answers: TextIO) -> None:
    """Answers requests until their stream ends."""
    for line in requests:
        answers.write(json.dumps(worker.answer(**json.loads(line))) + "\n")
        answers.flush()


def stand_in_for(*names: str) -> None:
    """Empty modules for imports of the reference's other codec that are not installed."""
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
    stand_in_for("torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi", "onnxruntime", "sox")
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
