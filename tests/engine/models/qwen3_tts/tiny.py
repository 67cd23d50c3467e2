"""A tiny model, loaded as a published one is, and ways to run requests through it."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from realtime_tts.engine.models.qwen3_tts.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_tts.config import ModelConfig, read_config
from realtime_tts.engine.models.qwen3_tts.predictor import Recall
from realtime_tts.engine.models.qwen3_tts.prompt import ClonedVoice, Prompt, PromptBuilder, ReferenceSpeech, Speech
from realtime_tts.engine.models.qwen3_tts.sampling import CodeSampling, Draw, DrawBatch, DrawTable
from realtime_tts.engine.models.qwen3_tts.talker import State, Talker, TalkerWeights, load_weights
from realtime_tts.engine.models.qwen3_tts.tokenizer import TextTokenizer, load_tokenizer
from tests.engine.models.qwen3_tts.make_checkpoint import RECIPES, make_checkpoint

# One thread is quicker for matrices this small, and far quicker where others use the cores as well.
torch.set_num_threads(1)

GOLDENS = Path(__file__).parent / "goldens"
Codes: TypeAlias = npt.NDArray[np.int64]
GetTiny: TypeAlias = "Callable[[str], Tiny]"


@dataclass(frozen=True, slots=True)
class Tiny:
    directory: Path
    config: ModelConfig
    weights: TalkerWeights
    tokenizer: TextTokenizer
    prompts: PromptBuilder

    def talker(
        self,
        slots: int = 4,
        max_len: int = 192,
        prefill_chunk: int = 512,
        recall: Recall = Recall.CACHE,
        graphs: bool = False,
    ) -> Talker:
        talker = Talker(
            self.config.talker_config,
            self.weights,
            slots=slots,
            max_len=max_len,
            text_pad_id=self.config.tts_pad_token_id,
            prefill_chunk=prefill_chunk,
            recall=recall,
        )
        if graphs:
            talker.capture(CodeSampling(), lambda _line: None)
        return talker

    def alone(self, prompt: Prompt, sampling: CodeSampling, frames: int, **options: Any) -> Codes:
        """The codes of a request that has the Talker to itself."""
        talker = self.talker(slots=1, **options)
        slot = talker.join(prompt, sampling)
        while talker.state(slot) is State.PREFILL:
            talker.prefill([slot])
        return finish(talker, [slot], frames)[slot]


def draw_batch(draws: Sequence[Draw], size: int) -> DrawBatch:
    """A row for each."""
    table = DrawTable(len(draws), size, torch.device("cpu"))
    for slot, draw in enumerate(draws):
        table.put(slot, draw)
    return table.batch(range(len(draws)), slice(None))


def load_tiny(directory: Path, name: str) -> Tiny:
    make_checkpoint(directory, RECIPES[name])
    config = read_config(directory)
    with Checkpoint(directory, torch.device("cpu"), torch.float32) as checkpoint:
        weights = load_weights(checkpoint, config.talker_config)
        checkpoint.take_all("speaker_encoder.")
    tokenizer = load_tokenizer(directory, config)
    return Tiny(directory, config, weights, tokenizer, PromptBuilder(config, tokenizer, weights.embeddings))


def finish(talker: Talker, slots: Iterable[int], frames: int) -> dict[int, Codes]:
    """Steps all of the slots together until each has ended or has so many frames."""
    codes: dict[int, list[Codes]] = {slot: [] for slot in slots}
    while running := [s for s in codes if talker.state(s) is State.READY and talker.frames(s) < frames]:
        step = talker.step(running)
        for slot, frame, ended in zip(running, step.codes, step.ended, strict=True):
            if not ended:
                codes[slot].append(frame)
    return {slot: np.array(made, np.int64).reshape(-1, 16) for slot, made in codes.items()}


@dataclass(frozen=True, slots=True)
class Golden:
    """One request to the reference, and what came of it.  bench/qwen3_tts_goldens.py tells what the fields mean."""

    name: str
    model: str
    text: str
    language: str | None
    speaker: str | None
    instruct: str | None
    voice: str | None
    text_first: bool
    seed: int | None
    frames: int
    options: dict[str, Any]
    keep_prompt: bool
    arrays: dict[str, npt.NDArray[Any]] = field(repr=False)

    def array(self, name: str) -> npt.NDArray[Any]:
        return self.arrays[f"{self.name}/{name}"]

    @property
    def codes(self) -> Codes:
        return self.array("codes").astype(np.int64)

    @property
    def speech(self) -> Speech:
        voice = None
        if self.voice is not None:
            reference = ReferenceSpeech("the hello", self.arrays["reference_codes"].astype(np.int64))
            voice = ClonedVoice(self.arrays["x_vector"], reference if self.voice == "icl" else None)
        return Speech(self.text, self.language, self.speaker, self.instruct, voice, self.text_first)

    @property
    def sampling(self) -> CodeSampling:
        talker = {n: self.options[n] for n in ("temperature", "top_k", "top_p") if n in self.options}
        names = {n: f"subtalker_{n}" for n in ("temperature", "top_k", "top_p")}
        predictor = {n: self.options[long] for n, long in names.items() if long in self.options}
        if self.seed is None:
            talker["temperature"] = predictor["temperature"] = 0
        if not self.options.get("subtalker_dosample", True):
            predictor["temperature"] = 0
        penalty = self.options.get("repetition_penalty", 1.05)
        return CodeSampling(Draw(**talker), Draw(**predictor), penalty, self.seed)


def goldens() -> list[Golden]:
    with np.load(GOLDENS / "talker.npz") as stored:
        arrays = dict(stored)
    listed = json.loads((GOLDENS / "talker.json").read_text("utf-8"))
    return [Golden(**case, arrays=arrays) for case in listed]
