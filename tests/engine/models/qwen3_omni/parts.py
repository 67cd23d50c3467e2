"""The parts of the tiny Qwen3-Omni, loaded like published ones, and the conversations of the goldens."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from realtime_tts.engine.api import AudioPart, ImagePart, Part, Role, TextPart, TextSampling, Turn
from realtime_tts.engine.models.qwen3.byte_pairs import BytePairs, load_byte_pairs
from realtime_tts.engine.models.qwen3.codec.decoder import Code2Wav
from realtime_tts.engine.models.qwen3.lane_stream import LaneStream
from realtime_tts.engine.models.qwen3.sampling import CodeSampling, SamplingParams
from realtime_tts.engine.models.qwen3.talker import Talker
from realtime_tts.engine.models.qwen3_omni.chat import AUDIO, IMAGE, OmniChat
from realtime_tts.engine.models.qwen3_omni.config import (
    OmniConfig,
    read_config,
    read_preprocessor_config,
    require_speech,
)
from realtime_tts.engine.models.qwen3_omni.context import TalkerInputs
from realtime_tts.engine.models.qwen3_omni.media import MediaEncoder
from realtime_tts.engine.models.qwen3_omni.prefix_cache import PrefixCache
from realtime_tts.engine.models.qwen3_omni.stages import TalkerStage
from realtime_tts.engine.models.qwen3_omni.thinker import NativeThinker
from realtime_tts.engine.models.qwen3_omni.weights import OmniWeights, SpeechWeights, load_omni_weights
from realtime_tts.engine.thinking.thinker import ThinkerPrompt, Written
from tests.engine.models.qwen3_omni.inputs import CONVERSATIONS

CPU = torch.device("cpu")
MAX_LEN = 192
TOKENS = 10
"""The tokens of each answer of the goldens, none of which ends by itself."""
GREEDY = TextSampling(max_tokens=TOKENS)


CODE_SAMPLING = CodeSampling(SamplingParams(0), SamplingParams(0), 1.05)


@dataclass(frozen=True, slots=True)
class OmniParts:
    config: OmniConfig
    weights: OmniWeights
    encoder: MediaEncoder
    byte_pairs: BytePairs
    chat: OmniChat

    def thinker(
        self, slots: int = 5, head: Callable[[torch.Tensor], torch.Tensor] | None = None, **options: Any
    ) -> NativeThinker:
        merged: dict[str, Any] = {"max_len": MAX_LEN, "input_modalities": frozenset({AUDIO, IMAGE})} | options
        weights = self.weights.thinker if head is None else replace(self.weights.thinker, head=head)
        return NativeThinker(self.config, weights, self.encoder, slots=slots, **merged)

    def prompt(self, name: str) -> ThinkerPrompt:
        return self.chat.prompt(turns(name), spoken=True).thinker

    @property
    def speech(self) -> SpeechWeights:
        assert self.weights.speech is not None
        return self.weights.speech

    @property
    def inputs(self) -> TalkerInputs:
        speech = require_speech(self.config)
        newline = self.byte_pairs.single_token("\n")
        return TalkerInputs(self.config, speech, self.speech.talker.embeddings, self.speech.hidden_projection, newline)

    def talker(self, slots: int = 5, graphs: bool = False, prefill_chunk: int = 512) -> Talker:
        talker = Talker(
            require_speech(self.config).talker.stack,
            self.speech.talker,
            slots=slots,
            max_len=MAX_LEN,
            text_pad_id=self.config.tts_pad_token_id,
            min_frames=0,
            prefill_chunk=prefill_chunk,
        )
        if graphs:
            talker.capture(CODE_SAMPLING, lambda _line: None)
        return talker

    def stage(self, talker: Talker, prefixes: PrefixCache | None = None, **options: Any) -> TalkerStage:
        merged: dict[str, Any] = {"published": CODE_SAMPLING, "max_new_tokens": 4096} | options
        return TalkerStage(
            talker,
            self.inputs,
            self.byte_pairs,
            prefixes=PrefixCache(self.config.thinker_config.pads) if prefixes is None else prefixes,
            lane_stream=LaneStream(CPU),
            **merged,
        )

    def decoder(self, slots: int = 5) -> Code2Wav:
        return Code2Wav(require_speech(self.config).decoder, self.speech.decoder, slots, CPU)


def load_parts(directory: Path) -> OmniParts:
    config, preprocessor = read_config(directory), read_preprocessor_config(directory)
    weights = load_omni_weights(directory, config, thinker_device=CPU, speech_device=CPU, dtype=torch.float32)
    byte_pairs = load_byte_pairs(directory, config.thinker_config.text_config.vocab_size)
    return OmniParts(
        config,
        weights,
        MediaEncoder(weights.audio_tower, weights.vision_tower, preprocessor),
        byte_pairs,
        OmniChat(config, preprocessor, byte_pairs, max_positions=MAX_LEN - 1),
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
