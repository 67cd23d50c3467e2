"""Makes a whole tiny Qwen3-TTS directory in the published layout: the Talker's, with its codec in speech_tokenizer/."""

import json
from pathlib import Path

from safetensors.torch import save_file

from tests.engine.models.qwen3_tts.make_checkpoint import RECIPES, make_checkpoint
from tests.engine.models.qwen3_tts.make_codec import DECODER, ENCODER, decoder_shapes, draw, encoder_shapes

CODEBOOK_SIZE = 2048
"""As many as the Talker's codes."""


def make_whole(directory: Path, name: str) -> None:
    """Writes the recipe called `name`, with everything that a published directory holds."""
    make_checkpoint(directory, RECIPES[name])
    codec = directory / "speech_tokenizer"
    codec.mkdir()
    decoder = DECODER | {"codebook_size": CODEBOOK_SIZE}
    encoder = ENCODER | {"codebook_size": CODEBOOK_SIZE}
    config = {"decoder_config": decoder, "encoder_config": encoder, "encoder_valid_num_quantizers": 16}
    (codec / "config.json").write_text(json.dumps(config), "utf-8")
    save_file(draw(decoder_shapes(decoder) | encoder_shapes(encoder), seed=0), codec / "model.safetensors")
