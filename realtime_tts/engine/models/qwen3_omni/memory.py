"""Memory of a model: bytes of each part and of a conversation, and how many conversations fit on a device."""

from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3.codec.config import DecoderConfig
from realtime_tts.engine.models.qwen3.codec.decoder import trunk_state_shapes
from realtime_tts.engine.models.qwen3.config import StackConfig
from realtime_tts.engine.models.qwen3_omni.config import OmniConfig, SpeechConfig
from realtime_tts.engine.models.qwen3_omni.media import CACHE_BYTES
from realtime_tts.engine.models.qwen3_omni.prefix_cache import LIMIT_BYTES
from realtime_tts.engine.models.qwen3_omni.weights import CODEC_DTYPE, PARTS

WORKING_BYTES, WORKING_SHARE = 2 * 1024**3, 0.15
"""Reserved for activations and CUDA graphs, whichever is more."""
PUBLISHED_VALUES = {
    "Thinker": 30_532_646_912,
    "audio tower": 647_927_168,
    "vision tower": 538_631_408,
    "Talker": 3_183_026_176,
    "code predictor": 141_570_304,
    "Code2Wav": 216_016_577,
}
"""The number of values in each part of the published files, which have 35,259,818,545."""


@dataclass(frozen=True, slots=True)
class PartMemory:
    name: str
    values: int
    bytes: int


@dataclass(frozen=True, slots=True)
class OmniMemory:
    """Bytes of weights by part, and of one conversation in the slots of each part."""

    parts: tuple[PartMemory, ...]
    thinker_bytes_per_slot: int
    speech_bytes_per_slot: int
    table_bytes: int
    """The embedding table, of which the Talker has a copy where it is on another device."""

    @property
    def thinker_weights_bytes(self) -> int:
        return sum(part.bytes for part in self.parts if part.name in ("Thinker", "audio tower", "vision tower"))

    @property
    def speech_weights_bytes(self) -> int:
        return sum(part.bytes for part in self.parts) - self.thinker_weights_bytes

    def slots(self, free_bytes: int, *, weights_loaded: bool = False) -> int:
        """The conversations that fit with all parts on one device; 0 if none does."""
        weights = self.thinker_weights_bytes + self.speech_weights_bytes
        per_slot = self.thinker_bytes_per_slot + self.speech_bytes_per_slot
        return _slots(free_bytes - (0 if weights_loaded else weights), per_slot, CACHE_BYTES + self._prefix_bytes)

    def thinker_slots(self, free_bytes: int, *, weights_loaded: bool = False) -> int:
        """The conversations that fit on a device of the Thinker alone."""
        available = free_bytes - (0 if weights_loaded else self.thinker_weights_bytes)
        return _slots(available, self.thinker_bytes_per_slot, CACHE_BYTES)

    def speech_slots(self, free_bytes: int, *, weights_loaded: bool = False) -> int:
        """The conversations that fit on a device of the Talker and Code2Wav alone."""
        available = free_bytes - (0 if weights_loaded else self.speech_weights_bytes + self.table_bytes)
        return _slots(available, self.speech_bytes_per_slot, self._prefix_bytes)

    @property
    def _prefix_bytes(self) -> int:
        return LIMIT_BYTES if self.speech_bytes_per_slot else 0


def _slots(available_bytes: int, per_slot: int, caches_bytes: int) -> int:
    working = max(WORKING_BYTES, int(WORKING_SHARE * available_bytes)) + caches_bytes
    return max(0, (available_bytes - working) // per_slot) if per_slot else 0


def checkpoint_values(directory: Path) -> dict[str, int]:
    """The number of values in each part, from the files' headers.  Raises ModelNotUsable."""
    checkpoint = Checkpoint(directory, torch.device("meta"), torch.float32)
    return {name: sum(map(checkpoint.count_values, prefixes)) for name, prefixes in PARTS.items()}


def omni_memory(
    config: OmniConfig, values: dict[str, int], dtype: torch.dtype, *, max_len: int, thinker_max_len: int
) -> OmniMemory:
    """Memory of a model with these numbers of values in its parts."""
    text = config.thinker_config.text_config
    return OmniMemory(
        parts=tuple(
            PartMemory(name, count, count * (CODEC_DTYPE if name == "Code2Wav" else dtype).itemsize)
            for name, count in values.items()
        ),
        # The repetition penalty needs to know the tokens that occurred.
        thinker_bytes_per_slot=_kv_bytes(config.thinker_config.stack, thinker_max_len, dtype) + text.vocab_size,
        speech_bytes_per_slot=0 if config.speech is None else _speech_bytes(config.speech, dtype, max_len),
        table_bytes=text.vocab_size * text.hidden_size * dtype.itemsize,
    )


def _speech_bytes(speech: SpeechConfig, dtype: torch.dtype, max_len: int) -> int:
    talker = speech.talker.stack
    predictor = talker.code_predictor_config
    caches = _kv_bytes(talker, max_len, dtype) + _kv_bytes(predictor, predictor.num_code_groups, dtype)
    last_states = 2 * talker.hidden_size * dtype.itemsize
    return caches + last_states + talker.vocab_size + _decoder_bytes(speech.decoder)


def _decoder_bytes(config: DecoderConfig) -> int:
    return CODEC_DTYPE.itemsize * sum(prod(shape) for shape in trunk_state_shapes(config).values())


def _kv_bytes(config: StackConfig, max_len: int, dtype: torch.dtype) -> int:
    """Bytes of a slot in `SlotCache`, which has one position more than may be used."""
    vectors = 2 * config.num_hidden_layers * config.num_key_value_heads * (max_len + 1)
    return vectors * config.head_dim * dtype.itemsize
