"""Qwen3-TTS checkpoints of any size with random weights, in the published layout, for measurements of speed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.engine.models.qwen3_tts import make_checkpoint, make_codec

_CODES = 2048


@dataclass(frozen=True, slots=True)
class Size:
    """Published shapes, scaled: the Talker's, the code predictor's and the decoder's."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    predictor_layers: int
    codec_latent: int
    codec_hidden: int
    codec_layers: int
    codec_channels: int
    predictor_hidden: int | None = None
    """Of the code predictor, if it differs from the Talker's."""


SIZES = {
    "tiny": Size(64, 2, 4, 2, 16, 2, 24, 16, 2, 64),
    "quarter": Size(256, 7, 4, 2, 64, 3, 256, 128, 4, 384),
    "half": Size(512, 14, 8, 4, 64, 5, 512, 256, 8, 768),
    "0.6B": Size(1024, 28, 16, 8, 128, 5, 1024, 512, 8, 1536),
    "1.7B": Size(2048, 28, 16, 8, 128, 5, 1024, 512, 8, 1536, predictor_hidden=1024),
}
"""`half` and `quarter` divide the width and depth of the 0.6B.  `0.6B` and `1.7B` have the published shapes, but a
small vocabulary."""


def write_model(directory: Path, size: Size) -> None:
    """Writes a CustomVoice model that never ends by itself, so that every request has all of its frames."""
    make_checkpoint.make_checkpoint(directory, make_checkpoint.RECIPES["custom_voice_small"])
    path = directory / "config.json"
    config = json.loads(path.read_text("utf-8"))
    talker = config["talker_config"]
    text_hidden = min(2 * size.hidden, 2048)
    talker |= _stack(size, size.hidden) | {"num_hidden_layers": size.layers, "text_hidden_size": text_hidden}
    half = size.head_dim // 2
    sections = [half - 2 * (half // 3), half // 3, half // 3]
    talker["rope_scaling"] |= {"mrope_section": sections}
    predictor = _stack(size, size.predictor_hidden or size.hidden) | {"num_hidden_layers": size.predictor_layers}
    talker["code_predictor_config"] |= predictor
    path.write_text(json.dumps(config), "utf-8")
    generator = torch.Generator().manual_seed(0)
    shapes = make_checkpoint.shapes(config)
    tensors = {name: _drawn(name, shape, generator) for name, shape in shapes.items()}
    # A score of zero for the end token, below that of fifty others: it is never drawn.
    tensors["talker.codec_head.weight"][make_checkpoint.EOS] = 0
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    _write_codec(directory / "speech_tokenizer", size)


def _stack(size: Size, hidden: int) -> dict[str, int]:
    return {
        "hidden_size": hidden,
        "intermediate_size": 3 * hidden,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "head_dim": size.head_dim,
    }


def _drawn(name: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    drawn = torch.randn(shape, generator=generator)
    if "norm" in name:
        return 1 + 0.1 * drawn
    return drawn if "embedding" in name else drawn / shape[-1] ** 0.5


def _write_codec(directory: Path, size: Size) -> None:
    """The encoder is tiny, because it is not used."""
    directory.mkdir()
    decoder: Mapping[str, Any] = make_codec.DECODER | {
        "codebook_size": _CODES,
        "codebook_dim": size.codec_latent // 2,
        "latent_dim": size.codec_latent,
        "hidden_size": size.codec_hidden,
        "num_attention_heads": (heads := max(4, size.codec_hidden // 32)),
        "num_key_value_heads": heads,
        "head_dim": 2 * size.codec_hidden // heads,
        "intermediate_size": 2 * size.codec_hidden,
        "num_hidden_layers": size.codec_layers,
        "decoder_dim": size.codec_channels,
    }
    encoder = make_codec.ENCODER | {"codebook_size": _CODES}
    config = make_codec.CODEC | {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "decoder_config": decoder,
        "encoder_config": encoder,
    }
    (directory / "config.json").write_text(json.dumps(config), "utf-8")
    features = {"feature_extractor_type": "EncodecFeatureExtractor", "feature_size": 1, "sampling_rate": 24_000}
    (directory / "preprocessor_config.json").write_text(json.dumps(features), "utf-8")
    shapes = make_codec.decoder_shapes(decoder) | make_codec.encoder_shapes(encoder)
    save_file(make_codec.draw(shapes, 0), directory / "model.safetensors", metadata={"format": "pt"})
