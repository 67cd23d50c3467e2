"""Writer of a complete tiny Qwen3-TTS directory in the published layout, with its codec in speech_tokenizer/."""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from tests.engine.models.qwen3_tts.make_checkpoint import RECIPES, make_checkpoint
from tests.engine.models.qwen3_tts.make_codec import DECODER, ENCODER, decoder_shapes, draw, encoder_shapes

CODEBOOK_SIZE = 2048
"""The number of the Talker's codes."""
WHOLE_DECODER: dict[str, Any] = DECODER | {"codebook_size": CODEBOOK_SIZE}
WHOLE_ENCODER: dict[str, Any] = ENCODER | {"codebook_size": CODEBOOK_SIZE}


def whole_codec_state() -> dict[str, Tensor]:
    return draw(decoder_shapes(WHOLE_DECODER) | encoder_shapes(WHOLE_ENCODER), seed=0)


def make_whole(directory: Path, name: str) -> None:
    """Writes the recipe `name` with all files of a published directory."""
    make_checkpoint(directory, RECIPES[name])
    codec = directory / "speech_tokenizer"
    codec.mkdir()
    config = {"decoder_config": WHOLE_DECODER, "encoder_config": WHOLE_ENCODER, "encoder_valid_num_quantizers": 16}
    (codec / "config.json").write_text(json.dumps(config), "utf-8")
    save_file(whole_codec_state(), codec / "model.safetensors")
