"""Tiny codec and speaker encoder with seeded weights, in the published layout of keys and shapes.

Every weight is random: the initial values of the published modules (codebooks 0, LayerScale 0.01, gamma 1e-6) would
hide what they multiply.  Gains keep the wave from vanishing and from saturating.  bench/qwen3_tts_codec_goldens.py also
imports this, in the reference's own environment: so it imports only numpy and torch.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Shape = tuple[int, ...]
Array = npt.NDArray[np.float32]

DECODER: dict[str, Any] = {
    "codebook_size": 64,
    "codebook_dim": 32,
    "latent_dim": 24,
    "hidden_size": 16,
    "head_dim": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "sliding_window": 72,
    "num_quantizers": 16,
    "upsample_rates": [8, 5, 4, 3],
    "upsampling_ratios": [2, 2],
    "decoder_dim": 64,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-5,
}
ENCODER: dict[str, Any] = {
    "hidden_size": 32,
    "num_filters": 4,
    "upsampling_ratios": [8, 6, 5, 4],
    "codebook_size": 64,
    "codebook_dim": 16,
    "vector_quantization_hidden_dimension": 16,
    "num_quantizers": 32,
    "num_semantic_quantizers": 1,
    "upsample_groups": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "sliding_window": 250,
    "frame_rate": 12.5,
}
CODEC: dict[str, Any] = {"decoder_config": DECODER, "encoder_config": ENCODER, "encoder_valid_num_quantizers": 16}
SPEAKER: dict[str, Any] = {
    "enc_dim": 24,
    "mel_dim": 128,
    "enc_channels": [32, 32, 32, 32, 96],
    "enc_kernel_sizes": [5, 3, 3, 3, 1],
    "enc_dilations": [1, 2, 3, 4, 1],
    "enc_attention_channels": 16,
    "enc_res2net_scale": 4,
    "enc_se_channels": 16,
    "sample_rate": 24000,
}

GAINS = (("decoder.decoder.6", 0.4), ("decoder.decoder.", 0.65), ("encoder.encoder.", 1.6), ("encoder.downsample", 1.6))
"""By the start of a weight's key, if it is not 1."""

DECODED_FRAMES, CODES_SEED = 330, 5
"""Longer than four attention windows, so that every case of a stream's position occurs."""
WINDOWED_FRAMES, WINDOWS = 120, ((4, 25), (8, 72))
"""Frames decoded without a state, and the chunks and their left contexts."""
SAMPLE_STRIDE, MEL_STRIDE = 61, 16
MIN_SPEAKER_SAMPLES = 1280
LONG_SEED = 52
"""A seed for which no code is a close decision, so that another machine's rounding gives the same codes."""


def codec_state(seed: int = 0) -> dict[str, Tensor]:
    """`speech_tokenizer/model.safetensors`."""
    return draw(decoder_shapes(DECODER) | encoder_shapes(ENCODER), seed)


def speaker_state(seed: int = 1) -> dict[str, Tensor]:
    """The `speaker_encoder.*` of the model's own file."""
    return draw(speaker_shapes(SPEAKER), seed)


def strip(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The keys that start with `prefix`, without it."""
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}


def speech(seconds: float, seed: int) -> Array:
    """24 kHz of a hum and noise with a varying amplitude, so that every band and level occurs."""
    random = np.random.default_rng(seed)
    time_s = np.arange(round(seconds * 24_000)) / 24_000
    hum = sum(np.sin(2 * np.pi * 140 * n * time_s + n) / n for n in range(1, 24))
    swell = 0.55 + 0.45 * np.sin(2 * np.pi * 1.7 * time_s)
    wave = 0.12 * (hum + random.standard_normal(len(time_s))) * swell
    return np.clip(wave, -1, 1).astype(np.float32)


def recordings() -> dict[str, Array]:
    """By name: lengths around the limits of a frame, and one beyond the encoder's `sliding_window` of 10 s."""
    lengths = {"one": 1, "short": 1279, "shortest_voice": 1280, "a_frame": 1920, "a_sample_more": 1921, "odd": 44_321}
    made = {name: speech(samples / 24_000, seed) for seed, (name, samples) in enumerate(lengths.items(), start=20)}
    return made | {"long": speech(11.0, LONG_SEED)}


def digest(wave: Array) -> dict[str, Array]:
    """A digest of a long wave: its first frames, every 61st sample, and a sum per frame that all samples affect."""
    signs = np.random.default_rng(0).standard_normal(1920)
    frames = wave.reshape(-1, 1920)
    return {
        "start": frames[:2].ravel(),
        "some": wave[::SAMPLE_STRIDE],
        "sums": (frames.astype(np.float64) @ signs).astype(np.float32),
    }


def codes(frames: int, seed: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, DECODER["codebook_size"], (frames, 16))


def draw(shapes: Mapping[str, Shape], seed: int) -> dict[str, Tensor]:
    random = np.random.default_rng(seed)
    return {
        key: torch.from_numpy(_draw(key, random.standard_normal(shape).astype(np.float32)))
        for key, shape in shapes.items()
    }


def _draw(key: str, noise: Array) -> Array:
    last = key.rsplit(".", 1)[-1]
    if last == "cluster_usage":
        noise = np.abs(noise) + 1
        noise[0] = 0.0  # a code that was never used, whose count is clamped
        return noise
    if last in ("embedding_sum", "embed_sum"):
        noise[0] *= 1e-5  # as its count is 0
    return offset(key) + gain(key, noise) * noise


def offset(key: str) -> float:
    last = key.rsplit(".", 1)[-1]
    if last in ("scale", "gamma"):
        return 0.5
    return 1.0 if last == "initialized" or ("norm" in key and last == "weight") else 0.0


def gain(key: str, noise: Array) -> np.float32:
    last = key.rsplit(".", 1)[-1]
    by_name = {"initialized": 0.0, "alpha": 0.3, "beta": 0.3, "scale": 0.1, "gamma": 0.1, "bias": 0.05}
    by_name |= {"embedding_sum": 0.4, "embed_sum": 2.0}
    if last in by_name or "norm" in key:
        return np.float32(by_name.get(last, 0.1))
    weight = next((gain for start, gain in GAINS if key.startswith(start)), 1.0)
    return np.float32(weight / np.sqrt(noise[0].size))


def decoder_shapes(config: Mapping[str, Any]) -> dict[str, Shape]:
    latent, hidden, books = config["latent_dim"], config["hidden_size"], config["codebook_size"]
    width = config["codebook_dim"]
    shapes: dict[str, Shape] = {}
    for part, count in (("rvq_first", 1), ("rvq_rest", config["num_quantizers"] - 1)):
        shapes[f"quantizer.{part}.input_proj.weight"] = (width // 2, width, 1)
        shapes[f"quantizer.{part}.output_proj.weight"] = (width, width // 2, 1)
        for n in range(count):
            shapes[f"quantizer.{part}.vq.layers.{n}._codebook.cluster_usage"] = (books,)
            shapes[f"quantizer.{part}.vq.layers.{n}._codebook.embedding_sum"] = (books, width // 2)
    shapes |= _conv("pre_conv.conv", width, latent, 3)
    inner, wide = config["num_attention_heads"] * config["head_dim"], config["intermediate_size"]
    for n in range(config["num_hidden_layers"]):
        key = f"pre_transformer.layers.{n}"
        shapes |= _attention(key, hidden, inner)
        shapes |= {f"{key}.mlp.{name}_proj.weight": (wide, hidden) for name in ("gate", "up")}
        shapes[f"{key}.mlp.down_proj.weight"] = (hidden, wide)
        shapes |= {f"{key}.{name}_layernorm.weight": (hidden,) for name in ("input", "post_attention")}
    shapes["pre_transformer.norm.weight"] = (hidden,)
    shapes |= _linear("pre_transformer.input_proj", latent, hidden)
    shapes |= _linear("pre_transformer.output_proj", hidden, latent)
    for n, rate in enumerate(config["upsampling_ratios"]):
        key = f"upsample.{n}"
        shapes |= {f"{key}.0.conv.weight": (latent, latent, rate), f"{key}.0.conv.bias": (latent,)}
        shapes |= {f"{key}.1.gamma": (latent,)} | _conv(f"{key}.1.dwconv.conv", 1, latent, 7)
        shapes |= {f"{key}.1.norm.{name}": (latent,) for name in ("weight", "bias")}
        shapes |= _linear(f"{key}.1.pwconv1", latent, 4 * latent) | _linear(f"{key}.1.pwconv2", 4 * latent, latent)
    channels = config["decoder_dim"]
    shapes |= _conv("decoder.0.conv", latent, channels, 7)
    for n, rate in enumerate(config["upsample_rates"]):
        shapes |= _block(f"decoder.{n + 1}.block", channels, rate)
        channels //= 2
    blocks = len(config["upsample_rates"])
    shapes |= _snake(f"decoder.{blocks + 1}", channels) | _conv(f"decoder.{blocks + 2}.conv", channels, 1, 7)
    return {f"decoder.{key}": shape for key, shape in shapes.items()}


def encoder_shapes(config: Mapping[str, Any]) -> dict[str, Shape]:
    hidden, channels = config["hidden_size"], config["num_filters"]
    shapes = _conv("encoder.layers.0.conv", 1, channels, 7)
    layer = 1
    for rate in reversed(config["upsampling_ratios"]):
        shapes |= _conv(f"encoder.layers.{layer}.block.1.conv", channels, channels // 2, 3)
        shapes |= _conv(f"encoder.layers.{layer}.block.3.conv", channels // 2, channels, 1)
        shapes |= _conv(f"encoder.layers.{layer + 2}.conv", channels, 2 * channels, 2 * rate)
        channels, layer = 2 * channels, layer + 3
    shapes |= _conv(f"encoder.layers.{layer + 1}.conv", channels, hidden, 3)
    for n in range(config["num_hidden_layers"]):
        key = f"encoder_transformer.layers.{n}"
        shapes |= _attention(key, hidden, config["num_attention_heads"] * config["head_dim"])
        shapes[f"{key}.mlp.fc1.weight"] = (config["intermediate_size"], hidden)
        shapes[f"{key}.mlp.fc2.weight"] = (hidden, config["intermediate_size"])
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes |= {f"{key}.{norm}.{name}": (hidden,) for name in ("weight", "bias")}
    shapes["downsample.conv.weight"] = (hidden, hidden, 4)
    width, books = config["codebook_dim"], config["codebook_size"]
    for part, count in (("semantic", 1), ("acoustic", config["num_quantizers"] - 1)):
        key = f"quantizer.{part}_residual_vector_quantizer"
        shapes[f"{key}.input_proj.weight"] = (width, hidden, 1)
        shapes[f"{key}.output_proj.weight"] = (hidden, width, 1)
        for n in range(count):
            shapes[f"{key}.layers.{n}.codebook.initialized"] = (1,)
            shapes[f"{key}.layers.{n}.codebook.cluster_usage"] = (books,)
            shapes[f"{key}.layers.{n}.codebook.embed_sum"] = (books, width)
    return {f"encoder.{key}": shape for key, shape in shapes.items()}


def speaker_shapes(config: Mapping[str, Any]) -> dict[str, Shape]:
    channels, kernels = config["enc_channels"], config["enc_kernel_sizes"]
    scale, squeezed = config["enc_res2net_scale"], config["enc_se_channels"]
    shapes = _conv("blocks.0.conv", config["mel_dim"], channels[0], kernels[0])
    for n in range(1, len(channels) - 1):
        key, width = f"blocks.{n}", channels[n]
        shapes |= _conv(f"{key}.tdnn1.conv", width, width, 1) | _conv(f"{key}.tdnn2.conv", width, width, 1)
        for part in range(scale - 1):
            shapes |= _conv(f"{key}.res2net_block.blocks.{part}.conv", width // scale, width // scale, kernels[n])
        shapes |= _conv(f"{key}.se_block.conv1", width, squeezed, 1) | _conv(
            f"{key}.se_block.conv2", squeezed, width, 1
        )
    last, attention = channels[-1], config["enc_attention_channels"]
    shapes |= _conv("mfa.conv", last, last, kernels[-1])
    shapes |= _conv("asp.tdnn.conv", 3 * last, attention, 1) | _conv("asp.conv", attention, last, 1)
    shapes |= _conv("fc", 2 * last, config["enc_dim"], 1)
    return {f"speaker_encoder.{key}": shape for key, shape in shapes.items()}


def _block(key: str, channels: int, rate: int) -> dict[str, Shape]:
    half = channels // 2
    shapes = _snake(f"{key}.0", channels)
    shapes |= {f"{key}.1.conv.weight": (channels, half, 2 * rate), f"{key}.1.conv.bias": (half,)}
    for n in (2, 3, 4):
        shapes |= _snake(f"{key}.{n}.act1", half) | _conv(f"{key}.{n}.conv1.conv", half, half, 7)
        shapes |= _snake(f"{key}.{n}.act2", half) | _conv(f"{key}.{n}.conv2.conv", half, half, 1)
    return shapes


def _attention(key: str, hidden: int, inner: int) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {f"{key}.self_attn.{name}_proj.weight": (inner, hidden) for name in "qkv"}
    shapes[f"{key}.self_attn.o_proj.weight"] = (hidden, inner)
    return shapes | {f"{key}.{name}_layer_scale.scale": (hidden,) for name in ("self_attn", "mlp")}


def _conv(key: str, inputs: int, outputs: int, width: int) -> dict[str, Shape]:
    return {f"{key}.weight": (outputs, inputs, width), f"{key}.bias": (outputs,)}


def _linear(key: str, inputs: int, outputs: int) -> dict[str, Shape]:
    return {f"{key}.weight": (outputs, inputs), f"{key}.bias": (outputs,)}


def _snake(key: str, channels: int) -> dict[str, Shape]:
    return {f"{key}.alpha": (channels,), f"{key}.beta": (channels,)}
