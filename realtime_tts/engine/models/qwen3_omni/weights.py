"""Weights of a published directory, each part on its device: every tensor is read once, and all must be read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3.codec.layers import reject_unused
from realtime_tts.engine.models.qwen3.embeddings import Projection
from realtime_tts.engine.models.qwen3.talker import TalkerWeights, load_weights
from realtime_tts.engine.models.qwen3_omni.audio_tower import AudioTower, load_audio_tower
from realtime_tts.engine.models.qwen3_omni.code2wav import DecoderWeights
from realtime_tts.engine.models.qwen3_omni.config import OmniConfig, SpeechConfig
from realtime_tts.engine.models.qwen3_omni.context import projection, text_table
from realtime_tts.engine.models.qwen3_omni.thinker import ThinkerWeights, load_thinker_weights
from realtime_tts.engine.models.qwen3_omni.vision_tower import VisionTower, load_vision_tower

CODEC_DTYPE = torch.float32
"""In bf16 the exponents of SnakeBeta have given NaN."""
PARTS = {
    "Thinker": ("thinker.model.", "thinker.lm_head."),
    "audio tower": ("thinker.audio_tower.",),
    "vision tower": ("thinker.visual.",),
    "Talker": ("talker.model.", "talker.codec_head.", "talker.text_projection.", "talker.hidden_projection."),
    "code predictor": ("talker.code_predictor.",),
    "Code2Wav": ("code2wav.",),
}
"""The names of each part's tensors, in the order of reading, which is that of the published files."""


@dataclass(frozen=True, slots=True)
class SpeechWeights:
    talker: TalkerWeights
    hidden_projection: Projection
    decoder: DecoderWeights


@dataclass(frozen=True, slots=True)
class OmniWeights:
    """A tower or the speech is None where it is not loaded, or the model has none."""

    thinker: ThinkerWeights
    audio_tower: AudioTower | None
    vision_tower: VisionTower | None
    speech: SpeechWeights | None


def load_omni_weights(
    directory: Path,
    config: OmniConfig,
    *,
    thinker_device: torch.device,
    speech_device: torch.device,
    dtype: torch.dtype,
    audio_input: bool = True,
    image_input: bool = True,
    progress: Callable[[str], None] = lambda _line: None,
) -> OmniWeights:
    """Raises ModelNotUsable, which names the first of the missing, unknown or misshapen tensors."""
    thinker = config.thinker_config
    with Checkpoint(directory, thinker_device, dtype, progress) as checkpoint:
        table = text_table(checkpoint, config)
        text = load_thinker_weights(checkpoint, config, table)
        audio_tower = load_audio_tower(checkpoint, thinker.audio_config) if audio_input else None
        vision_tower = load_vision_tower(checkpoint, thinker.vision_config) if image_input else None
        for skipped, prefix in ((audio_tower, "thinker.audio_tower."), (vision_tower, "thinker.visual.")):
            if skipped is None:
                checkpoint.skip_all(prefix)
        speech = None
        if config.speech is not None:
            # The Talker has a copy of the table where it is on another device.
            speech = _load_speech(checkpoint.on(speech_device), config.speech, table.to(speech_device))
        return OmniWeights(text, audio_tower, vision_tower, speech)


def _load_speech(checkpoint: Checkpoint, config: SpeechConfig, table: torch.Tensor) -> SpeechWeights:
    text_projection = projection(checkpoint, "text_projection", config)
    hidden_projection = projection(checkpoint, "hidden_projection", config)
    talker = load_weights(checkpoint, config.talker.stack, table, text_projection)
    state = checkpoint.read_all("code2wav.", CODEC_DTYPE)
    decoder = DecoderWeights.from_state(config.decoder, state)
    reject_unused(state, "code2wav")
    return SpeechWeights(talker, hidden_projection, decoder)
