"""Writer of a tiny Qwen3-TTS directory in the published layout, with all tensors of a real one and seeded weights.

Every weight affects the output: none is zero or near the identity, as usual initial values are.
"""

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import pre_tokenizers

HIDDEN = 64
WORDS = ("assistant", "user", "hello", "Ġhello", "Ġworld", "Ġthe")
SPECIALS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
)
LANGUAGES = {"chinese": 2055, "english": 2050, "german": 2053, "beijing_dialect": 2074, "sichuan_dialect": 2062}
SPEAKERS = {"vivian": 3065, "ryan": 3061, "eric": 2875, "dylan": 2878}
DIALECTS: dict[str, str | bool] = {
    "vivian": False,
    "ryan": False,
    "eric": "sichuan_dialect",
    "dylan": "beijing_dialect",
}
EOS = 2150


@dataclass(frozen=True, slots=True)
class Recipe:
    """A model to write.  `eos` is added to the weights of the end code, so that speech ends soon."""

    kind: str = "custom_voice"
    size: str = "1b7"
    predictor_hidden: int = 32
    """If it is HIDDEN there is no projection, as in the 0.6B."""
    predictor_layers: int = 5
    seed: int = 0
    eos: float = 0.0
    shards: int = 1


RECIPES = {
    "custom_voice": Recipe(),
    "custom_voice_small": Recipe(size="0b6", predictor_hidden=HIDDEN, seed=1),
    "custom_voice_ends": Recipe(seed=2, eos=0.35),
    "voice_design": Recipe("voice_design", seed=3),
    "base": Recipe("base", seed=4, shards=3),
    "base_small": Recipe("base", "0b6", HIDDEN, seed=5),
    # Faster, for tests without goldens.
    "shallow": Recipe(predictor_layers=1),
    "shallow_ends": Recipe(predictor_layers=1, seed=2, eos=0.35),
    "shallow_base": Recipe("base", predictor_layers=1, seed=4, shards=3),
}


def make_checkpoint(directory: Path, recipe: Recipe) -> None:
    """Writes everything except `speech_tokenizer/`."""
    directory.mkdir(parents=True, exist_ok=True)
    special_ids, text_vocab_size = _write_tokenizer(directory)
    config = _config(recipe, special_ids, text_vocab_size)
    _write_json(directory / "config.json", config)
    _write_json(directory / "generation_config.json", _generation_config())
    tensors = {name: _values(name, shape, recipe) for name, shape in shapes(config).items()}
    _write_tensors(directory, tensors, recipe.shards)


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The name and shape of every tensor in a directory with this `config.json`."""
    talker = config["talker_config"]
    predictor = talker["code_predictor_config"]
    hidden, wide, groups = talker["hidden_size"], talker["text_hidden_size"], talker["num_code_groups"]
    own = predictor["hidden_size"]
    found = _stack_shapes("talker.model.", talker)
    found |= _stack_shapes("talker.code_predictor.model.", predictor)
    found["talker.model.text_embedding.weight"] = (talker["text_vocab_size"], wide)
    found["talker.model.codec_embedding.weight"] = (talker["vocab_size"], hidden)
    found["talker.codec_head.weight"] = (talker["vocab_size"], hidden)
    for layer, outputs in (("linear_fc1", wide), ("linear_fc2", hidden)):
        found[f"talker.text_projection.{layer}.weight"] = (outputs, wide)
        found[f"talker.text_projection.{layer}.bias"] = (outputs,)
    for group in range(groups - 1):
        found[f"talker.code_predictor.model.codec_embedding.{group}.weight"] = (predictor["vocab_size"], hidden)
        found[f"talker.code_predictor.lm_head.{group}.weight"] = (predictor["vocab_size"], own)
    if own != hidden:
        found["talker.code_predictor.small_to_mtp_projection.weight"] = (own, hidden)
        found["talker.code_predictor.small_to_mtp_projection.bias"] = (own,)
    if config["tts_model_type"] == "base":
        found |= _speaker_encoder_shapes(config["speaker_encoder_config"])
    return found


def _stack_shapes(prefix: str, config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden, inner, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    block = {
        "input_layernorm": (hidden,),
        "self_attn.q_proj": (heads, hidden),
        "self_attn.k_proj": (kv_heads, hidden),
        "self_attn.v_proj": (kv_heads, hidden),
        "self_attn.o_proj": (hidden, heads),
        "self_attn.q_norm": (dim,),
        "self_attn.k_norm": (dim,),
        "post_attention_layernorm": (hidden,),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    found: dict[str, tuple[int, ...]] = {f"{prefix}norm.weight": (hidden,)}
    for layer in range(config["num_hidden_layers"]):
        found |= {f"{prefix}layers.{layer}.{name}.weight": shape for name, shape in block.items()}
    return found


def _speaker_encoder_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    channels, kernels = config["enc_channels"], config["enc_kernel_sizes"]
    scale, last = config["enc_res2net_scale"], config["enc_channels"][-1]
    convs = {"blocks.0": (channels[0], config["mel_dim"], kernels[0])}
    for index in range(1, len(channels) - 1):
        width, before = channels[index], channels[index - 1]
        convs[f"blocks.{index}.tdnn1"] = (width, before, 1)
        for part in range(scale - 1):
            convs[f"blocks.{index}.res2net_block.blocks.{part}"] = (width // scale, width // scale, kernels[index])
        convs[f"blocks.{index}.tdnn2"] = (width, width, 1)
        convs[f"blocks.{index}.se_block.conv1!"] = (config["enc_se_channels"], width, 1)
        convs[f"blocks.{index}.se_block.conv2!"] = (width, config["enc_se_channels"], 1)
    convs["mfa"] = (last, sum(channels[1:-1]), kernels[-1])
    convs["asp.tdnn"] = (config["enc_attention_channels"], 3 * last, 1)
    convs["asp"] = (last, config["enc_attention_channels"], 1)
    convs["fc!"] = (config["enc_dim"], 2 * last, 1)
    found: dict[str, tuple[int, ...]] = {}
    for name, shape in convs.items():
        whole = f"speaker_encoder.{name.removesuffix('!')}" + ("" if name.endswith("!") else ".conv")
        found |= {f"{whole}.weight": shape, f"{whole}.bias": shape[:1]}
    return found


def _values(name: str, shape: tuple[int, ...], recipe: Recipe) -> torch.Tensor:
    """Random values that do not depend on the other tensors."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) ^ recipe.seed)
    drawn = torch.randn(shape, generator=generator)
    if "norm" in name:
        return 1 + 0.1 * drawn
    if name.endswith("bias"):
        return 0.05 * drawn
    if "embedding" in name:
        return drawn
    values: torch.Tensor = drawn / drawn[0].numel() ** 0.5
    if name == "talker.codec_head.weight":
        values[EOS] += recipe.eos
    return values


def _config(recipe: Recipe, special_ids: dict[str, int], text_vocab_size: int) -> dict[str, Any]:
    custom = recipe.kind == "custom_voice"
    talker = {
        "vocab_size": 3072,
        "hidden_size": HIDDEN,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "hidden_act": "silu",
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000,
        "rope_scaling": {"rope_type": "default", "type": "default", "mrope_section": [3, 3, 2], "interleaved": True},
        "attention_bias": False,
        "use_sliding_window": False,
        "num_code_groups": 16,
        "text_hidden_size": 48,
        "text_vocab_size": text_vocab_size,
        "codec_bos_id": 2149,
        "codec_eos_token_id": EOS,
        "codec_pad_id": 2148,
        "codec_think_id": 2154,
        "codec_nothink_id": 2155,
        "codec_think_bos_id": 2156,
        "codec_think_eos_id": 2157,
        "codec_language_id": {name: i for name, i in LANGUAGES.items() if custom or "dialect" not in name},
        "spk_id": SPEAKERS if custom else {},
        "spk_is_dialect": DIALECTS if custom else {},
        "code_predictor_config": {
            "vocab_size": 2048,
            "hidden_size": recipe.predictor_hidden,
            "intermediate_size": 64,
            "num_hidden_layers": recipe.predictor_layers,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "rope_theta": 1000000,
            "rms_norm_eps": 1e-6,
            "num_code_groups": 16,
        },
    }
    config = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": recipe.size,
        "tts_model_type": recipe.kind,
        "im_start_token_id": special_ids["<|im_start|>"],
        "im_end_token_id": special_ids["<|im_end|>"],
        "tts_pad_token_id": special_ids["<tts_pad>"],
        "tts_bos_token_id": special_ids["<tts_text_bos>"],
        "tts_eos_token_id": special_ids["<tts_text_eod>"],
        "talker_config": talker,
    }
    if recipe.kind == "base":
        config["speaker_encoder_config"] = {
            "mel_dim": 128,
            "enc_dim": HIDDEN,
            "enc_channels": [32, 32, 32, 32, 96],
            "enc_kernel_sizes": [5, 3, 3, 3, 1],
            "enc_dilations": [1, 2, 3, 4, 1],
            "enc_attention_channels": 16,
            "enc_res2net_scale": 4,
            "enc_se_channels": 16,
            "sample_rate": 24000,
        }
    return config


def _generation_config() -> dict[str, Any]:
    shared = {"top_k": 50, "top_p": 1.0, "temperature": 0.9}
    predictor = {f"subtalker_{name}": value for name, value in shared.items()}
    more = {"do_sample": True, "subtalker_dosample": True, "repetition_penalty": 1.05, "max_new_tokens": 8192}
    return shared | predictor | more


def _write_tokenizer(directory: Path) -> tuple[dict[str, int], int]:
    """Writes bytes and a few one-token words.  Returns the ids of the special tokens and the vocabulary's size."""
    vocab = {char: index for index, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges: dict[str, None] = {}
    for word in WORDS:
        for end in range(1, len(word)):
            merges[f"{word[:end]} {word[end]}"] = None
            vocab.setdefault(word[: end + 1], len(vocab))
    specials = {name: len(vocab) + index for index, name in enumerate(SPECIALS)}
    _write_json(directory / "vocab.json", vocab)
    (directory / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), "utf-8")
    added = {
        str(index): {
            "content": name,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": True,
        }
        for name, index in specials.items()
    }
    tokenizer = {
        "add_prefix_space": False,
        "added_tokens_decoder": added,
        "additional_special_tokens": SPECIALS[1:],
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
        "processor_class": "Qwen3TTSProcessor",
    }
    _write_json(directory / "tokenizer_config.json", tokenizer)
    _write_json(directory / "preprocessor_config.json", {"processor_class": "Qwen3TTSProcessor"})
    return specials, len(vocab) + len(specials)


def _write_tensors(directory: Path, tensors: dict[str, torch.Tensor], shards: int) -> None:
    if shards == 1:
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
        return
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = dict(list(tensors.items())[shard::shards])
        weight_map |= dict.fromkeys(part, file)
        save_file(part, directory / file, metadata={"format": "pt"})
    _write_json(directory / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), "utf-8")
