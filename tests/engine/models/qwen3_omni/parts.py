"""The parts of the tiny Qwen3-Omni, loaded like published ones, and the conversations of the goldens."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from realtime_tts.engine.api import AudioPart, ImagePart, Part, Role, TextPart, TextSampling, Turn
from realtime_tts.engine.models.qwen3.byte_pairs import load_byte_pairs
from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_omni.audio_tower import load_audio_tower
from realtime_tts.engine.models.qwen3_omni.chat import AUDIO, IMAGE, OmniChat
from realtime_tts.engine.models.qwen3_omni.config import OmniConfig, read_config, read_preprocessor_config
from realtime_tts.engine.models.qwen3_omni.context import text_table
from realtime_tts.engine.models.qwen3_omni.media import MediaEncoder
from realtime_tts.engine.models.qwen3_omni.thinker import NativeThinker, ThinkerWeights, load_thinker_weights
from realtime_tts.engine.models.qwen3_omni.vision_tower import load_vision_tower
from realtime_tts.engine.thinking.thinker import ThinkerPrompt, Written
from tests.engine.models.qwen3_omni.inputs import CONVERSATIONS

CPU = torch.device("cpu")
MAX_LEN = 192
TOKENS = 10
"""The tokens of each answer of the goldens, none of which ends by itself."""
GREEDY = TextSampling(max_tokens=TOKENS)


@dataclass(frozen=True, slots=True)
class OmniParts:
    config: OmniConfig
    weights: ThinkerWeights
    encoder: MediaEncoder
    chat: OmniChat

    def thinker(
        self, slots: int = 5, head: Callable[[torch.Tensor], torch.Tensor] | None = None, **options: Any
    ) -> NativeThinker:
        options = {"max_len": MAX_LEN, "input_modalities": frozenset({AUDIO, IMAGE})} | options
        weights = self.weights if head is None else replace(self.weights, head=head)
        return NativeThinker(self.config, weights, self.encoder, slots=slots, **options)

    def prompt(self, name: str) -> ThinkerPrompt:
        return self.chat.prompt(turns(name), spoken=True).thinker


def load_parts(directory: Path) -> OmniParts:
    config, preprocessor = read_config(directory), read_preprocessor_config(directory)
    checkpoint = Checkpoint(directory, CPU, torch.float32)
    thinker = config.thinker_config
    return OmniParts(
        config,
        load_thinker_weights(checkpoint, config, text_table(checkpoint, config)),
        MediaEncoder(
            load_audio_tower(checkpoint, thinker.audio_config),
            load_vision_tower(checkpoint, thinker.vision_config),
            preprocessor,
        ),
        OmniChat(
            config,
            preprocessor,
            load_byte_pairs(directory, thinker.text_config.vocab_size),
            max_positions=MAX_LEN - 1,
        ),
    )


def turns(name: str) -> tuple[Turn, ...]:
    return tuple(Turn(Role(each["role"]), tuple(map(_part, each["content"]))) for each in CONVERSATIONS[name])


def _part(part: dict[str, Any]) -> Part:
    if part["type"] == "text":
        return TextPart(part["text"])
    values: np.ndarray = part["samples" if part["type"] == "audio" else "pixels"]
    key = hashlib.sha256(values.tobytes()).hexdigest()
    return AudioPart(values, key) if part["type"] == "audio" else ImagePart(values, key)


def write_answers(
    thinker: NativeThinker,
    prompts: dict[str, ThinkerPrompt],
    sampling: TextSampling = GREEDY,
    budgets: Sequence[int | None] = (None,),
) -> dict[str, list[Written]]:
    """What the Thinker writes for these prompts, all joined at once; step i reads `budgets[i % n]` prompt tokens."""
    for name, prompt in prompts.items():
        thinker.join(name, prompt, sampling)
    written: dict[str, list[Written]] = {name: [] for name in prompts}
    for number in range(1000):
        for each in thinker.step(budgets[number % len(budgets)]):
            written[each.request_id].append(each)
        if all(steps and steps[-1].end for steps in written.values()):
            return written
    raise AssertionError("the Thinker did not end")


def ids_of(written: Sequence[Written]) -> list[int]:
    return [token for each in written for token in each.ids]
