"""Is a directory whole, and what will a GPU hold of the model?  Told by its files' headers: no weights are loaded."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import torch

from realtime_tts.engine.models.qwen3_tts import build, loading
from realtime_tts.engine.models.qwen3_tts.about import model_name
from realtime_tts.engine.models.qwen3_tts.budget import (
    CODEC_DIRECTORY,
    CONTEXT_BYTES,
    Footprint,
    weights_bytes,
)
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecConfig
from realtime_tts.engine.models.qwen3_tts.config import (
    ModelConfig,
    ModelType,
    read_config,
    read_generation_config,
    read_json,
)
from realtime_tts.engine.models.qwen3_tts.published import SIZES, published
from realtime_tts.engine.models.qwen3_tts.tokenizer import load_tokenizer
from realtime_tts.errors import ModelNotUsable

GPU_SIZES_GB = (16, 24, 40, 48, 80, 141)
"""What cards are sold with; their GB are GiB, within 1%."""
GIB = 1024**3
MIB = 1024**2
META = torch.device("meta")
"""Shapes without memory: what is loaded onto it is checked, and not read."""
KINDS = (ModelType.CUSTOM_VOICE, ModelType.BASE)
"""VoiceDesign takes what CustomVoice does."""


@dataclass(frozen=True, slots=True)
class Gpu:
    name: str
    free_bytes: int
    total_bytes: int


def examine(options: dict[str, Any], gpu_memory_gb: float | None, tell: Callable[[str], None]) -> None:
    """Tells each finding in a line.  `options` are those of `build`.  Raises ModelNotUsable for what keeps it from use.

    Without a `model_dir`: what the published sizes take.  Without a GPU: what common ones, or one of `gpu_memory_gb`,
    would hold.
    """
    wishes = _wishes(options)
    gpu = find_gpu(wishes.device)
    imagined = torch.bfloat16 if options.get("dtype", "auto") == "auto" else wishes.dtype
    if options.get("model_dir") is None:
        tell("ok    no directory is named: these are the published sizes")
        here = [published(size, kind, wishes.dtype, wishes.max_len) for size in SIZES for kind in KINDS]
        there = [published(size, kind, imagined, wishes.max_len) for size in SIZES for kind in KINDS]
    else:
        directory = Path(options["model_dir"]).expanduser()
        here = [check_directory(directory, wishes.dtype, wishes.max_len, tell)]
        there = [replace(here[0], weights_bytes=weights_bytes(directory, imagined), dtype=imagined)]
    if gpu_memory_gb is not None:
        tell_of_gpus(there, (gpu_memory_gb,), tell)
    elif gpu is not None:
        tell_of_gpu(here, gpu, wishes.slots, tell)
    else:
        tell("SLOW  it will run on the CPU: correctly, and far slower than it is heard")
        if options.get("model_dir") is not None:
            tell(f"ok    {_needs(here[0])}; {wishes.slots or loading.CPU_SLOTS} slots are made")
        tell_of_gpus(there, GPU_SIZES_GB, tell)


def check_directory(directory: Path, dtype: torch.dtype, max_len: int, tell: Callable[[str], None]) -> Footprint:
    """Everything that `build` reads is there and fits together.  Raises ModelNotUsable."""
    if not directory.is_dir():
        raise ModelNotUsable(f"{directory} is not a directory; nothing is downloaded for a look")
    config = read_config(directory)
    codec = read_json(directory / CODEC_DIRECTORY / "config.json", CodecConfig)
    read_generation_config(directory)
    longest = config.talker_config.max_position_embeddings
    if max_len > longest:
        raise ModelNotUsable(f"max_len: at most {longest}, got {max_len}")
    load_tokenizer(directory, config)
    _check_tensors(directory, config, codec)
    name = model_name(directory.resolve().name, config)
    tell(f"ok    {name}: configuration, tokenizer and every tensor are there (headers read, no weights loaded)")
    return Footprint(name, config, codec.decoder_config, weights_bytes(directory, dtype), dtype, max_len)


def find_gpu(device: torch.device) -> Gpu | None:
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return Gpu(torch.cuda.get_device_name(device), free, total)


def tell_of_gpu(footprints: list[Footprint], gpu: Gpu, slots: int | None, tell: Callable[[str], None]) -> None:
    """What the GPU found here will hold.  Raises ModelNotUsable where that is nothing, or less than `slots`."""
    free, total = gpu.free_bytes / GIB, gpu.total_bytes / GIB
    tell(f"ok    it will run on {gpu.name}: {free:.1f} of {total:.1f} GiB are free")
    for each in footprints:
        tell(f"ok    {_needs(each)}")
        fit, wanted = each.slots(gpu.free_bytes), slots or 1
        if len(footprints) == 1 and fit < wanted:
            raise ModelNotUsable(f"{each.name}: there is room for {fit} slots, and {wanted} are needed")
        made = slots or min(fit, loading.MAX_SLOTS)
        tell(f"ok    {fit} slots fit, {made} are made: so many sentences are spoken at once, as far as memory goes")


def tell_of_gpus(footprints: list[Footprint], sizes_gb: tuple[float, ...], tell: Callable[[str], None]) -> None:
    """What GPUs that are not here would hold."""
    for each in footprints:
        tell(f"ok    {_needs(each)}")
    widths = [max(9, len(each.name)) for each in footprints]
    names = "  ".join(f"{each.name:>{width}}" for each, width in zip(footprints, widths, strict=True))
    tell(f"      Slots by memory, of which at most {loading.MAX_SLOTS} are made unless told otherwise:")
    tell(f"      {'GPU of':>9}  {names}")
    for size_gb in sizes_gb:
        counts = [each.slots(int(size_gb * GIB) - CONTEXT_BYTES) for each in footprints]
        cells = "  ".join(f"{count or 'too small':>{width}}" for count, width in zip(counts, widths, strict=True))
        tell(f"      {f'{size_gb:g} GB':>9}  {cells}")


def _needs(each: Footprint) -> str:
    slot_mib = (each.slot_cache_bytes + each.slot_decoder_bytes) / MIB
    dtype = str(each.dtype).removeprefix("torch.")
    return (
        f"{each.name} in {dtype}: weights {each.weights_bytes / GIB:.2f} GiB; a slot of {each.max_len} positions"
        f" {slot_mib:.1f} MiB ({each.slot_cache_bytes / MIB:.1f} of keys and values,"
        f" {each.slot_decoder_bytes / MIB:.1f} of the decoder's state)"
    )


def _wishes(options: dict[str, Any]) -> loading.Wishes:
    """As `build` makes them.  Raises ModelNotUsable."""
    allowed = signature(build).parameters
    if unknown := [name for name in options if name not in allowed]:
        raise ModelNotUsable(f"qwen3_tts has no option {', '.join(unknown)}; it has {', '.join(allowed)}")
    names = signature(loading.wishes).parameters
    return loading.wishes(**{name: options.get(name, allowed[name].default) for name in names})


def _check_tensors(directory: Path, config: ModelConfig, codec: CodecConfig) -> None:
    """By the loaders themselves: each tensor in its shape, none too many, no file that has been cut off."""
    loading.load_talker(directory, config, META, torch.float32)
    loading.load_codec(directory, config, codec, META)
