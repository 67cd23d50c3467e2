"""Code2Wav built from a state dict, as loading builds it from a checkpoint."""

from typing import Any

import msgspec
import torch

from realtime_tts.engine.models.qwen3.codec.decoder import Code2Wav
from realtime_tts.engine.models.qwen3.codec.layers import StateDict, reject_unused
from realtime_tts.engine.models.qwen3_tts.code2wav import DecoderWeights
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecDecoderConfig


def make_decoder(config: dict[str, Any] | CodecDecoderConfig, state: StateDict, slots: int) -> Code2Wav:
    """On the device of the tensors.  Raises ModelNotUsable."""
    decoder_config = msgspec.convert(config, CodecDecoderConfig) if isinstance(config, dict) else config
    device = next(iter(state.values())).device if state else torch.device("cpu")
    weights = DecoderWeights.from_state(decoder_config, state)
    reject_unused(state, "decoder")
    return Code2Wav(decoder_config, weights, slots, device)
