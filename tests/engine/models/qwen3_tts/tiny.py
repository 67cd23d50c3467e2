"""The Talker of a tiny model, loaded like a published one, and helpers that run requests through it."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3.embeddings import Prompt
from realtime_tts.engine.models.qwen3.predictor import KVMode
from realtime_tts.engine.models.qwen3.sampling import CodeSampling, SamplingBatch, SamplingParams, SamplingTable
from realtime_tts.engine.models.qwen3.talker import SlotState, Talker, TalkerWeights
from realtime_tts.engine.models.qwen3_tts.config import ModelConfig, read_config
from realtime_tts.engine.models.qwen3_tts.loading import MIN_FRAMES, load_talker_weights
from realtime_tts.engine.models.qwen3_tts.prompt import ClonedVoice, PromptBuilder, ReferenceSpeech, Speech
from realtime_tts.engine.models.qwen3_tts.tokenizer import TextTokenizer, load_tokenizer
from tests.engine.models.qwen3_tts.make_checkpoint import RECIPES, make_checkpoint

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
        kv_mode: KVMode = KVMode.CACHE,
        graphs: bool = False,
    ) -> Talker:
        talker = Talker(
            self.config.talker_config,
            self.weights,
            slots=slots,
            max_len=max_len,
            text_pad_id=self.config.tts_pad_token_id,
            min_frames=MIN_FRAMES,
            prefill_chunk=prefill_chunk,
            kv_mode=kv_mode,
        )
        if graphs:
            talker.capture(CodeSampling(), lambda _line: None)
        return talker

    def alone(self, prompt: Prompt, sampling: CodeSampling, frames: int, **options: Any) -> Codes:
        """The codes of a request that runs alone."""
        talker = self.talker(slots=1, **options)
        slot = talker.add_request(prompt, sampling)
        while talker.state(slot) is SlotState.PREFILL:
            talker.prefill([slot])
        return finish(talker, [slot], frames)[slot]


def sampling_batch(params: Sequence[SamplingParams], size: int) -> SamplingBatch:
    """One row for each of the parameters."""
    table = SamplingTable(len(params), size, torch.device("cpu"))
    for slot, each in enumerate(params):
        table.set(slot, each)
    return table.batch(range(len(params)), slice(None))


def load_tiny(directory: Path, name: str) -> Tiny:
    make_checkpoint(directory, RECIPES[name])
    config = read_config(directory)
    with Checkpoint(directory, torch.device("cpu"), torch.float32) as checkpoint:
        weights = load_talker_weights(checkpoint, config.talker_config)
        checkpoint.read_all("speaker_encoder.")
    tokenizer = load_tokenizer(directory, config)
    return Tiny(directory, config, weights, tokenizer, PromptBuilder(config, tokenizer, weights.embeddings))


def finish(talker: Talker, slots: Iterable[int], frames: int) -> dict[int, Codes]:
    """Steps all slots together until each has ended or has the given number of frames."""
    codes: dict[int, list[Codes]] = {slot: [] for slot in slots}
    while running := [s for s in codes if talker.state(s) is SlotState.READY and talker.frames(s) < frames]:
        step = talker.step(running)
        for slot, frame, ended in zip(running, step.codes, step.ended, strict=True):
            if not ended:
                codes[slot].append(frame)
    return {slot: np.array(made, np.int64).reshape(-1, 16) for slot, made in codes.items()}


@dataclass(frozen=True, slots=True)
class Golden:
    """One request to the reference, and its recorded result.  bench/qwen3_tts_goldens.py explains the fields."""

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
        return CodeSampling(SamplingParams(**talker), SamplingParams(**predictor), penalty, self.seed)


def goldens() -> list[Golden]:
    with np.load(GOLDENS / "talker.npz") as stored:
        arrays = dict(stored)
    listed = json.loads((GOLDENS / "talker.json").read_text("utf-8"))
    return [Golden(**case, arrays=arrays) for case in listed]
