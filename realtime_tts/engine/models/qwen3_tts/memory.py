"""Memory of a checkpoint or a published size: bytes of its weights and slots, and the slots that fit on a device."""

from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path

import torch

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3.config import CodeStackConfig, StackConfig, read_json
from realtime_tts.engine.models.qwen3_tts.code2wav import state_shapes
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecConfig, CodecDecoderConfig
from realtime_tts.engine.models.qwen3_tts.config import ModelType, read_config
from realtime_tts.engine.models.qwen3_tts.model_info import TASK_TYPES

CODEC_DIRECTORY = "speech_tokenizer"
CODEC_DTYPE = torch.float32
"""In bf16 the exponents of SnakeBeta have given NaN."""
VOICE_CACHE_BYTES = 512 * 1024**2
"""About fifty cloned voices, 10 MB each: half is decoder state, half the Talker's prompt prefix."""
WORKING_BYTES, WORKING_SHARE = 2 * 1024**3, 0.15
"""Reserved for activations, whichever is more.  A decode of 16 streams of 25 frames takes 1.8 GB."""

_stack = partial(CodeStackConfig, num_attention_heads=16, num_key_value_heads=8, num_code_groups=16)
TALKERS = {
    "0.6B": _stack(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, vocab_size=3072),
    "1.7B": _stack(hidden_size=2048, intermediate_size=6144, num_hidden_layers=28, vocab_size=3072),
}
PREDICTOR = _stack(hidden_size=1024, intermediate_size=3072, num_hidden_layers=5, vocab_size=2048)
CODEC = CodecDecoderConfig(codebook_dim=512, hidden_size=512, head_dim=64, intermediate_size=1024)
TALKER_VALUES = {"0.6B": 905_788_672, "1.7B": 1_916_676_352}
SPEAKER_ENCODER_VALUES = {"0.6B": 8_854_336, "1.7B": 12_001_088}
DECODER_VALUES, ENCODER_VALUES = 114_323_137, 56_234_304
"""The published configurations, and the number of values in each part of the published files."""


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes that a model takes with its Talker in `dtype`, and slots of `max_len` positions."""

    name: str
    dtype: torch.dtype
    max_len: int
    weights_bytes: int
    talker_bytes_per_slot: int
    decoder_bytes_per_slot: int
    voice_cache_bytes: int

    @property
    def bytes_per_slot(self) -> int:
        return self.talker_bytes_per_slot + self.decoder_bytes_per_slot

    def slots(self, free_bytes: int, *, weights_loaded: bool = False) -> int:
        """The number of slots that fit into `free_bytes`; 0 if none does."""
        available = free_bytes if weights_loaded else free_bytes - self.weights_bytes
        working = max(WORKING_BYTES, int(WORKING_SHARE * available)) + self.voice_cache_bytes
        return max(0, (available - working) // self.bytes_per_slot)


def checkpoint_memory(directory: Path, name: str, dtype: torch.dtype, max_len: int) -> ModelMemory:
    """Memory of a directory in the published layout, from its files' headers.  Raises ModelNotUsable."""
    config = read_config(directory)
    decoder = read_json(directory / CODEC_DIRECTORY / "config.json", CodecConfig).decoder_config
    model = Checkpoint(directory, torch.device("cpu"), dtype)
    codec = Checkpoint(directory / CODEC_DIRECTORY, torch.device("cpu"), CODEC_DTYPE)
    encoder_values = model.count_values("speaker_encoder.") + codec.count_values("encoder.")
    values = model.count_values("talker."), codec.count_values("decoder."), encoder_values
    talker = config.talker_config
    return _memory(name, config.tts_model_type, talker, talker.code_predictor_config, decoder, values, dtype, max_len)


def published_memory(size: str, model_type: ModelType, dtype: torch.dtype, max_len: int) -> ModelMemory:
    """Memory of the published model of a size (a key of `TALKERS`) and type."""
    values = TALKER_VALUES[size], DECODER_VALUES, SPEAKER_ENCODER_VALUES[size] + ENCODER_VALUES
    name = f"{size} {TASK_TYPES[model_type]}"
    return _memory(name, model_type, TALKERS[size], PREDICTOR, CODEC, values, dtype, max_len)


def _memory(
    name: str,
    model_type: ModelType,
    talker: CodeStackConfig,
    predictor: CodeStackConfig,
    codec: CodecDecoderConfig,
    values: tuple[int, int, int],
    dtype: torch.dtype,
    max_len: int,
) -> ModelMemory:
    """`values` are those of the Talker, of the decoder and of both encoders, which only the Base model loads."""
    clones = model_type is ModelType.BASE
    talker_values, decoder_values, encoder_values = values
    caches = _kv_bytes(talker, max_len, dtype) + _kv_bytes(predictor, predictor.num_code_groups, dtype)
    last_states = 2 * talker.hidden_size * dtype.itemsize
    return ModelMemory(
        name,
        dtype,
        max_len,
        dtype.itemsize * talker_values + CODEC_DTYPE.itemsize * (decoder_values + clones * encoder_values),
        talker_bytes_per_slot=caches + last_states + talker.vocab_size,
        decoder_bytes_per_slot=CODEC_DTYPE.itemsize * sum(prod(shape) for shape in state_shapes(codec).values()),
        voice_cache_bytes=clones * VOICE_CACHE_BYTES,
    )


def _kv_bytes(config: StackConfig, max_len: int, dtype: torch.dtype) -> int:
    """Bytes of a slot in `SlotCache`, which has one position more than may be used."""
    vectors = 2 * config.num_hidden_layers * config.num_key_value_heads * (max_len + 1)
    return vectors * config.head_dim * dtype.itemsize
