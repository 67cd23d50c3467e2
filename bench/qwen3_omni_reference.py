"""Worker process with transformers' Qwen3-Omni: one JSON line in, one JSON line out.

Used by bench.qwen3_omni_vs_reference.  It runs in an environment of its own (bench/qwen3_omni_goldens.py names the
packages), so it imports nothing of this project.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Model(Protocol):
    """The part of the reference that is used."""

    def generate(self, **options: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Worker:
    model: Model
    tensor: Callable[[list[list[int]]], Any]
    waves: "Callable[[Any], list[npt.NDArray[np.float32]]]"
    """The audio of each prompt, of what `generate` returns."""
    save: "Callable[[str, npt.NDArray[np.float32]], object]"

    def answer(self, prompts: list[list[int]], tokens: int, frames: int, wave: str) -> dict[str, Any]:
        """Wall and CPU seconds of one call for all prompts, which have one length, and the samples of each.

        Greedy: all answers have so many tokens that are spoken, and so many frames.  Writes the audio of the first to
        the file `wave`, unless that is empty.
        """
        ids = self.tensor(prompts)
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        result = self.model.generate(
            input_ids=ids,
            attention_mask=ids * 0 + 1,
            speaker="Ethan",
            return_audio=True,
            thinker_do_sample=False,
            thinker_max_new_tokens=tokens + 1,  # the last one is not spoken
            thinker_eos_token_id=-1,
            talker_do_sample=False,
            talker_max_new_tokens=frames + 1,  # the last one is no frame
        )
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        waves = self.waves(result)
        if wave:
            self.save(wave, waves[0])
        return {"wall_s": wall_s, "cpu_s": cpu_s, "samples": [len(each) for each in waves]}


def serve(worker: Worker, requests: TextIO, answers: TextIO) -> None:
    """Answers requests until the end of the input."""
    for line in requests:
        answers.write(json.dumps(worker.answer(**json.loads(line))) + "\n")
        answers.flush()


def main(arguments: Sequence[str]) -> None:
    directory, threads = arguments
    # The reference and its libraries print to the standard output, which is reserved for answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    import numpy as np
    import torch
    import transformers

    torch.set_num_threads(int(threads))
    transformers.logging.set_verbosity_error()
    model = transformers.Qwen3OmniMoeForConditionalGeneration.from_pretrained(directory, dtype=torch.float32).eval()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    answers.write(json.dumps(versions) + "\n")
    answers.flush()

    def waves(result: Any) -> list[Any]:
        _tokens, made = result
        return [each.reshape(-1).numpy() for each in made]

    serve(Worker(model, torch.tensor, waves, np.save), sys.stdin, answers)


if __name__ == "__main__":
    main(sys.argv[1:])
