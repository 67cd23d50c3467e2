"""How much memory does a model take, and for how many requests at once is there room?"""

from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch

from realtime_tts.engine.models.qwen3_tts.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_tts.code2wav import state_shapes
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecDecoderConfig
from realtime_tts.engine.models.qwen3_tts.config import ModelConfig, ModelType, StackConfig, TalkerConfig, read_config

CODEC_DIRECTORY = "speech_tokenizer"
CODEC_DTYPE = torch.float32
"""In bf16 the exponents of SnakeBeta have given NaN."""
VOICE_CACHE_BYTES = 512 * 1024**2
"""About fifty cloned voices, 10 MB each: half for the decoder, half for what the Talker has read."""
WORKING_BYTES = 2 * 1024**3
WORKING_SHARE = 0.15
"""Left to what a step needs while it runs, whichever is more.  A decode of 16 streams of 25 frames takes 1.8 GB."""
CONTEXT_BYTES = 512 * 1024**2
"""What CUDA and its libraries take before anything is loaded: an estimate, for GPUs that are not at hand."""


def weights_bytes(directory: Path, dtype: torch.dtype) -> int:
    """What the weights of a published directory take once loaded, told by its files' headers.  Raises ModelNotUsable.

    Only the Base model hears recordings, so only its codec is loaded with an encoder.
    """
    config = read_config(directory)
    cpu = torch.device("cpu")
    talker = Checkpoint(directory, cpu, dtype)
    codec = Checkpoint(directory / CODEC_DIRECTORY, cpu, CODEC_DTYPE)
    heard = 0
    if config.tts_model_type is ModelType.BASE:
        heard = talker.count("speaker_encoder.") + codec.count("encoder.")
    return dtype.itemsize * talker.count("talker.") + CODEC_DTYPE.itemsize * (codec.count("decoder.") + heard)


def talker_bytes_per_slot(config: TalkerConfig, dtype: torch.dtype, max_len: int) -> int:
    """Keys and values of `max_len` positions, the code predictor's of one frame, and what else a row remembers."""
    predictor = config.code_predictor_config
    caches = _cache_bytes(config, max_len, dtype) + _cache_bytes(predictor, config.num_code_groups, dtype)
    last_states = 2 * config.hidden_size * dtype.itemsize
    return caches + last_states + config.vocab_size


def decoder_bytes_per_slot(config: CodecDecoderConfig) -> int:
    """What the codec's decoder remembers of a stream: 5.2 MB as published."""
    return CODEC_DTYPE.itemsize * sum(prod(shape) for shape in state_shapes(config).values())


def slots_that_fit(
    config: ModelConfig, codec: CodecDecoderConfig, free_bytes: int, dtype: torch.dtype, max_len: int
) -> int:
    """How many requests at once there is room for in `free_bytes`, the weights being loaded already; 0 where none."""
    working = max(WORKING_BYTES, int(WORKING_SHARE * free_bytes))
    if config.tts_model_type is ModelType.BASE:
        working += VOICE_CACHE_BYTES
    slot = talker_bytes_per_slot(config.talker_config, dtype, max_len) + decoder_bytes_per_slot(codec)
    return max(0, (free_bytes - working) // slot)


def _cache_bytes(config: StackConfig, max_len: int, dtype: torch.dtype) -> int:
    """As `SlotCache` lays it out: one position more than may be used."""
    vectors = 2 * config.num_hidden_layers * config.num_key_value_heads * (max_len + 1)
    return vectors * config.head_dim * dtype.itemsize


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory of a model, in one dtype, with slots of `max_len` positions."""

    name: str
    config: ModelConfig
    codec: CodecDecoderConfig
    weights_bytes: int
    dtype: torch.dtype
    max_len: int

    @property
    def slot_cache_bytes(self) -> int:
        return talker_bytes_per_slot(self.config.talker_config, self.dtype, self.max_len)

    @property
    def slot_decoder_bytes(self) -> int:
        return decoder_bytes_per_slot(self.codec)

    def slots(self, free_bytes: int) -> int:
        """How many fit into what is free before anything is loaded; 0 where not even one."""
        return slots_that_fit(self.config, self.codec, free_bytes - self.weights_bytes, self.dtype, self.max_len)
