"""Writer of a tiny Qwen3-Omni directory in the published layout, with all tensors of a real one and seeded weights.

Every weight affects the output: none is zero or near the identity, as usual initial values are.  The towers have the
published windows and patches.
"""

import json
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import pre_tokenizers

WORDS = ("system", "user", "assistant", "Ġhello", "Ġworld", "Ġthe", "how", "Ġare", "Ġyou")
SPECIALS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"),
    *("<|image_pad|>", "<|video_pad|>", "<|audio_start|>", "<|audio_end|>", "<tts_pad>", "<tts_text_bos>"),
    *("<tts_text_eod>", "<tts_text_bos_single>", "<|audio_pad|>"),
)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'audio' %}<|audio_start|><|audio_pad|><|audio_end|>"
    "{% elif p.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ p.text }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""What the published template gives for text, audio and images."""
SPEAKERS = {"chelsie": 2301, "ethan": 2302, "aiden": 2303}
VOCABULARY = 384
HIDDEN = 64
EOS = 2150
SHARDS = 3


def make_checkpoint(
    directory: Path, *, seed: int = 0, eos: float = 0.0, text_only: bool = False, old_spelling: bool = False
) -> None:
    """`eos` is added to the scores of the end of speech, so that speech ends soon."""
    directory.mkdir(parents=True, exist_ok=True)
    config = make_config(_write_tokenizer(directory), text_only=text_only)
    tensors = {name: _values(name, shape, seed, eos) for name, shape in shapes(config).items()}
    write_json(directory / "config.json", _old_spelling(config) if old_spelling else config)
    write_json(directory / "generation_config.json", {"talker_max_new_tokens": 4096, "talker_temperature": 0.9})
    write_json(directory / "preprocessor_config.json", PREPROCESSORS)
    write_tensors(directory, tensors)


PREPROCESSORS = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "feature_size": 128,
    "hop_length": 160,
    "n_fft": 400,
    "sampling_rate": 16000,
    "chunk_length": 300,
    "n_samples": 4800000,
    "nb_max_frames": 30000,
    "padding_value": 0.0,
    "dither": 0.0,
    "return_attention_mask": True,
    "image_processor_type": "Qwen2VLImageProcessor",
    "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3,
    "min_pixels": 3136,
    "max_pixels": 12845056,
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "processor_class": "Qwen3OmniMoeProcessor",
}


def make_config(ids: dict[str, int], *, text_only: bool) -> dict[str, Any]:
    """`config.json`, as transformers 5 spells it."""
    rope = {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [6, 5, 5], "mrope_interleaved": True}
    pads = {
        "audio_token_id": ids["<|audio_pad|>"],
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "audio_start_token_id": ids["<|audio_start|>"],
        "audio_end_token_id": ids["<|audio_end|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
        "position_id_per_seconds": 13,
    }
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
    experts = {"num_experts": 8, "norm_topk_prob": True, "mlp_only_layers": [], "decoder_sparse_step": 1}
    thinker = {
        "audio_config": {
            "num_mel_bins": 128,
            "encoder_layers": 2,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 48,
            "d_model": 32,
            "output_dim": HIDDEN,
            "n_window": 50,
            "n_window_infer": 800,
            "conv_chunksize": 500,
            "max_source_positions": 1500,
            "downsample_hidden_size": 8,
        },
        "vision_config": {
            "depth": 3,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "patch_size": 16,
            "temporal_patch_size": 2,
            "spatial_merge_size": 2,
            "out_hidden_size": HIDDEN,
            "in_channels": 3,
            "num_position_embeddings": 2304,
            "deepstack_visual_indexes": [0, 1],
            "image_size": 768,
        },
        "text_config": {
            "vocab_size": VOCABULARY,
            "hidden_size": HIDDEN,
            "intermediate_size": 48,
            "num_hidden_layers": 5,
            "moe_intermediate_size": 32,
            "num_experts_per_tok": 2,
            "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": False,
            "rope_parameters": dict(rope),
            **heads,
            **experts,
        },
        "user_token_id": ids["user"],
        **pads,
    }
    talker = {
        "text_config": {
            "vocab_size": 3072,
            "hidden_size": HIDDEN,
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "moe_intermediate_size": 24,
            "shared_expert_intermediate_size": 40,
            "num_experts_per_tok": 3,
            "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-6,
            "rope_parameters": dict(rope),
            **heads,
            **experts,
        },
        "code_predictor_config": {
            "vocab_size": 2048,
            "hidden_size": HIDDEN,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_code_groups": 16,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
            **heads,
        },
        "num_code_groups": 16,
        "thinker_hidden_size": HIDDEN,
        "accept_hidden_layer": 3,
        "codec_eos_token_id": EOS,
        "codec_nothink_id": 2155,
        "codec_think_bos_id": 2156,
        "codec_think_eos_id": 2157,
        "codec_pad_id": 2148,
        "codec_bos_id": 2149,
        "speaker_id": SPEAKERS,
        "spatial_merge_size": 2,
        **pads,
    }
    code2wav = {
        "codebook_size": 2048,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "sliding_window": 8,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_quantizers": 16,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
        "decoder_dim": 64,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }
    config: dict[str, Any] = {
        "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
        "model_type": "qwen3_omni_moe",
        "enable_audio_output": not text_only,
        "thinker_config": thinker,
        "im_start_token_id": ids["<|im_start|>"],
        "im_end_token_id": ids["<|im_end|>"],
        "tts_pad_token_id": ids["<tts_pad>"],
        "tts_bos_token_id": ids["<tts_text_bos>"],
        "tts_eos_token_id": ids["<tts_text_eod>"],
        **{f"{role}_token_id": ids[role] for role in ("system", "user", "assistant")},
    }
    return config if text_only else config | {"talker_config": talker, "code2wav_config": code2wav}


def _old_spelling(config: dict[str, Any]) -> dict[str, Any]:
    """The same configuration as transformers 4 spells it."""
    config = json.loads(json.dumps(config))
    stacks = [config["thinker_config"]["text_config"]]
    stacks += [config["talker_config"][name] for name in ("text_config", "code_predictor_config")]
    for stack in (*stacks, config["code2wav_config"]):
        rope = stack.pop("rope_parameters")
        stack["rope_theta"] = rope.pop("rope_theta")
        if "mrope_section" in rope:
            stack["rope_scaling"] = rope | {"type": "default"}
    return dict(config)


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The name and shape of every tensor in a directory with this `config.json`."""
    thinker = config["thinker_config"]
    found = _thinker_shapes(thinker["text_config"])
    found |= _audio_shapes(thinker["audio_config"]) | _vision_shapes(thinker["vision_config"])
    if config["enable_audio_output"]:
        found |= _talker_shapes(config["talker_config"]) | _code2wav_shapes(config["code2wav_config"])
    return found


def _stack_shapes(prefix: str, config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden, dim = config["hidden_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    block: dict[str, tuple[int, ...]] = {
        "input_layernorm": (hidden,),
        "self_attn.q_proj": (heads, hidden),
        "self_attn.k_proj": (kv_heads, hidden),
        "self_attn.v_proj": (kv_heads, hidden),
        "self_attn.o_proj": (hidden, heads),
        "self_attn.q_norm": (dim,),
        "self_attn.k_norm": (dim,),
        "post_attention_layernorm": (hidden,),
    }
    if "num_experts" in config:
        block["mlp.gate"] = (config["num_experts"], hidden)
        for expert in range(config["num_experts"]):
            block |= _mlp_shapes(f"mlp.experts.{expert}", hidden, config["moe_intermediate_size"])
        if "shared_expert_intermediate_size" in config:
            block |= _mlp_shapes("mlp.shared_expert", hidden, config["shared_expert_intermediate_size"])
            block["mlp.shared_expert_gate"] = (1, hidden)
    else:
        block |= _mlp_shapes("mlp", hidden, config["intermediate_size"])
    found: dict[str, tuple[int, ...]] = {f"{prefix}norm.weight": (hidden,)}
    for layer in range(config["num_hidden_layers"]):
        found |= {f"{prefix}layers.{layer}.{name}.weight": shape for name, shape in block.items()}
    return found


def _mlp_shapes(prefix: str, hidden: int, inner: int) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {f"{prefix}.{part}_proj": (inner, hidden) for part in ("gate", "up")}
    return found | {f"{prefix}.down_proj": (hidden, inner)}


def _linear(name: str, outputs: int, *inputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, *inputs), f"{name}.bias": (outputs,)}


def _thinker_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    table = (config["vocab_size"], config["hidden_size"])
    found: dict[str, tuple[int, ...]] = {"thinker.model.embed_tokens.weight": table, "thinker.lm_head.weight": table}
    return found | _stack_shapes("thinker.model.", config)


def _audio_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    width, inner, channels = config["d_model"], config["encoder_ffn_dim"], config["downsample_hidden_size"]
    prefix = "thinker.audio_tower."
    found = _linear(f"{prefix}conv2d1", channels, 1, 3, 3)
    found |= _linear(f"{prefix}conv2d2", channels, channels, 3, 3) | _linear(
        f"{prefix}conv2d3", channels, channels, 3, 3
    )
    found[f"{prefix}conv_out.weight"] = (width, channels * config["num_mel_bins"] // 8)
    for layer in range(config["encoder_layers"]):
        name = f"{prefix}layers.{layer}."
        for part in ("q", "k", "v"):
            found |= _linear(f"{name}self_attn.{part}_proj", width, width)
        found |= _linear(f"{name}self_attn.out_proj", width, width) | _linear(f"{name}self_attn_layer_norm", width)
        found |= _linear(f"{name}fc1", inner, width) | _linear(f"{name}fc2", width, inner)
        found |= _linear(f"{name}final_layer_norm", width)
    found |= _linear(f"{prefix}ln_post", width) | _linear(f"{prefix}proj1", width, width)
    return found | _linear(f"{prefix}proj2", config["output_dim"], width)


def _vision_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    width, inner, out = config["hidden_size"], config["intermediate_size"], config["out_hidden_size"]
    prefix, merged = "thinker.visual.", 4 * width
    found = _linear(f"{prefix}patch_embed.proj", width, 3, 2, 16, 16)
    found[f"{prefix}pos_embed.weight"] = (config["num_position_embeddings"], width)
    for layer in range(config["depth"]):
        name = f"{prefix}blocks.{layer}."
        found |= _linear(f"{name}attn.qkv", 3 * width, width) | _linear(f"{name}attn.proj", width, width)
        found |= _linear(f"{name}mlp.linear_fc1", inner, width) | _linear(f"{name}mlp.linear_fc2", width, inner)
        found |= _linear(f"{name}norm1", width) | _linear(f"{name}norm2", width)
    mergers = {f"{prefix}merger": width}
    mergers |= {f"{prefix}merger_list.{n}": merged for n in range(len(config["deepstack_visual_indexes"]))}
    for name, normed in mergers.items():
        found |= _linear(f"{name}.ln_q", normed) | _linear(f"{name}.mlp.0", merged, merged)
        found |= _linear(f"{name}.mlp.2", out, merged)
    return found


def _talker_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    text, predictor = config["text_config"], config["code_predictor_config"]
    hidden, thinker, inner = text["hidden_size"], config["thinker_hidden_size"], text["intermediate_size"]
    found = _stack_shapes("talker.model.", text) | _stack_shapes("talker.code_predictor.model.", predictor)
    found["talker.model.codec_embedding.weight"] = found["talker.codec_head.weight"] = (text["vocab_size"], hidden)
    for name in ("text_projection", "hidden_projection"):
        found |= _linear(f"talker.{name}.linear_fc1", inner, thinker) | _linear(
            f"talker.{name}.linear_fc2", hidden, inner
        )
    for group in range(predictor["num_code_groups"] - 1):
        table = (predictor["vocab_size"], hidden)
        found[f"talker.code_predictor.model.codec_embedding.{group}.weight"] = table
        found[f"talker.code_predictor.lm_head.{group}.weight"] = table
    return found


def _code2wav_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    width, inner, prefix = config["hidden_size"], config["intermediate_size"], "code2wav."
    found: dict[str, tuple[int, ...]] = {f"{prefix}pre_transformer.norm.weight": (width,)}
    found[f"{prefix}code_embedding.weight"] = (config["num_quantizers"] * config["codebook_size"], width)
    for layer in range(config["num_hidden_layers"]):
        name = f"{prefix}pre_transformer.layers.{layer}."
        found |= {f"{name}self_attn.{part}_proj.weight": (width, width) for part in "qkvo"}
        found |= {f"{name}{each}.weight": shape for each, shape in _mlp_shapes("mlp", width, inner).items()}
        found |= {f"{name}{each}.weight": (width,) for each in ("input_layernorm", "post_attention_layernorm")}
        found |= {f"{name}{each}_layer_scale.scale": (width,) for each in ("self_attn", "mlp")}
    for stage, rate in enumerate(config["upsampling_ratios"]):
        name = f"{prefix}upsample.{stage}."
        found |= {f"{name}0.conv.weight": (width, width, rate), f"{name}0.conv.bias": (width,)}
        found |= _linear(f"{name}1.dwconv.conv", width, 1, 7) | _linear(f"{name}1.norm", width)
        found |= _linear(f"{name}1.pwconv1", 4 * width, width) | _linear(f"{name}1.pwconv2", width, 4 * width)
        found[f"{name}1.gamma"] = (width,)
    channels = config["decoder_dim"]
    found |= _linear(f"{prefix}decoder.0.conv", channels, width, 7)
    for stage, rate in enumerate(config["upsample_rates"]):
        name, half = f"{prefix}decoder.{stage + 1}.block.", channels // 2
        found |= {f"{name}0.{part}": (channels,) for part in ("alpha", "beta")}
        found |= {f"{name}1.conv.weight": (channels, half, 2 * rate), f"{name}1.conv.bias": (half,)}
        for unit in (2, 3, 4):
            found |= {f"{name}{unit}.{act}.{part}": (half,) for act in ("act1", "act2") for part in ("alpha", "beta")}
            found |= _linear(f"{name}{unit}.conv1.conv", half, half, 7)
            found |= _linear(f"{name}{unit}.conv2.conv", half, half, 1)
        channels = half
    last = len(config["upsample_rates"]) + 1
    found |= {f"{prefix}decoder.{last}.{part}": (channels,) for part in ("alpha", "beta")}
    return found | _linear(f"{prefix}decoder.{last + 1}.conv", 1, channels, 7)


def _values(name: str, shape: tuple[int, ...], seed: int, eos: float) -> torch.Tensor:
    """Random values that do not depend on the other tensors."""
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(zlib.crc32(name.encode()) ^ seed))
    values: torch.Tensor = drawn / drawn[0].numel() ** 0.5
    if name.endswith(("alpha", "beta")):
        return 0.3 * drawn
    if "layer_scale" in name or name.endswith("gamma"):
        return 0.5 + 0.1 * drawn
    if name.endswith("bias"):
        return 0.05 * drawn
    if "norm" in name or "ln_" in name:
        return 1 + 0.1 * drawn
    if "code_embedding" in name:
        return 3 * drawn
    if "embed" in name and "patch" not in name:
        return drawn
    if "head" in name:
        values = 3 * values
        if name == "talker.codec_head.weight":
            values[EOS] += eos
        return values
    if name.endswith("gate.weight"):
        return 2 * values
    return 0.6 * values if "code2wav.decoder" in name else values


def _write_tokenizer(directory: Path) -> dict[str, int]:
    """Writes bytes and a few one-token words.  Returns the ids of the special tokens and of the roles."""
    vocab = {char: index for index, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges: dict[str, None] = {}
    for word in WORDS:
        for end in range(1, len(word)):
            merges[f"{word[:end]} {word[end]}"] = None
            vocab.setdefault(word[: end + 1], len(vocab))
    specials = {name: len(vocab) + index for index, name in enumerate(SPECIALS)}
    assert len(vocab) + len(specials) <= VOCABULARY, "the vocabulary is too small"
    write_json(directory / "vocab.json", vocab)
    (directory / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), "utf-8")
    flags = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
    added = {str(index): {"content": name, **flags, "special": True} for name, index in specials.items()}
    tokenizer = {
        "added_tokens_decoder": added,
        "additional_special_tokens": SPECIALS[1:],
        "chat_template": TEMPLATE,
        "add_prefix_space": False,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
        "errors": "replace",
    }
    write_json(directory / "tokenizer_config.json", tokenizer)
    return specials | {role: vocab[role] for role in ("system", "user", "assistant")}


def write_tensors(directory: Path, tensors: dict[str, torch.Tensor]) -> None:
    """In several files with an index, in the order of the tensors."""
    weight_map: dict[str, str] = {}
    names = list(tensors)
    size = -(-len(names) // SHARDS)
    for shard in range(SHARDS):
        file = f"model-{shard + 1:05}-of-{SHARDS:05}.safetensors"
        part = {name: tensors[name] for name in names[shard * size : (shard + 1) * size]}
        weight_map |= dict.fromkeys(part, file)
        save_file(part, directory / file, metadata={"format": "pt"})
    write_json(directory / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), "utf-8")
