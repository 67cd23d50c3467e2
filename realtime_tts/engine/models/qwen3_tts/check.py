"""Installation check of `doctor`: a directory's files without loading their weights, and the slots that a GPU holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from realtime_tts.engine.models.qwen3.config import read_json
from realtime_tts.engine.models.qwen3_tts import loading
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecConfig
from realtime_tts.engine.models.qwen3_tts.config import ModelType, read_config, read_generation_config
from realtime_tts.engine.models.qwen3_tts.memory import (
    CODEC_DIRECTORY,
    TALKERS,
    ModelMemory,
    checkpoint_memory,
    published_memory,
)
from realtime_tts.engine.models.qwen3_tts.model_info import model_name
from realtime_tts.engine.models.qwen3_tts.tokenizer import load_tokenizer
from realtime_tts.engine.models.spec import Report
from realtime_tts.errors import ModelNotUsable

GPU_SIZES_GB = (16, 24, 40, 48, 80, 141)
"""Sizes as sold, whose GB are GiB within 1%."""
CUDA_CONTEXT_BYTES = 512 * 1024**2
"""Taken by CUDA and its libraries before anything is loaded: an estimate, for a GPU that is not in this machine."""
GIB, MIB = 1024**3, 1024**2
META = torch.device("meta")
"""Shapes without memory: tensors that are loaded onto it are checked, and not read."""


@dataclass(frozen=True, slots=True)
class Gpu:
    name: str
    free_bytes: int
    total_bytes: int


def check_installation(options: Mapping[str, Any], gpu_memory_gb: float | None, report: Report) -> None:
    """Checks the directory, and reports the memory that it takes; without a `model_dir`, that of the published sizes.

    `options` are all those of `build`.  The slots are those of the GPU of this machine; if it has none, those of common
    GPUs, or of one of `gpu_memory_gb`.  Raises ModelNotUsable for what prevents use.
    """
    load_options = loading.load_options(**{k: v for k, v in options.items() if k not in ("model_dir", "progress")})
    gpu_dtype = torch.bfloat16 if options["dtype"] == "auto" else load_options.dtype
    directory = None if options["model_dir"] is None else Path(options["model_dir"]).expanduser()
    if directory is None:
        report("ok    no directory is given: these are the published sizes")
        memories = partial(_published_memories, max_len=load_options.max_len)
    else:
        name = check_directory(directory, load_options.max_len)
        report(f"ok    {name}: configuration, tokenizer and every tensor are there (headers read, no weights loaded)")
        memories = partial(_directory_memories, directory, name, max_len=load_options.max_len)
    gpu = find_gpu(load_options.device)
    if gpu_memory_gb is not None:
        report_gpu_sizes(memories(gpu_dtype), (gpu_memory_gb,), report)
    elif gpu is not None:
        report_gpu(memories(load_options.dtype), gpu, load_options.slots, report)
    else:
        report("SLOW  without a GPU it runs on the CPU: with correct output, but slower than realtime")
        if directory is not None:
            slots = load_options.slots or loading.CPU_SLOTS
            report(f"ok    {_summary(*memories(load_options.dtype))}; {slots} slots are allocated")
        report_gpu_sizes(memories(gpu_dtype), GPU_SIZES_GB, report)


def _directory_memories(directory: Path, name: str, dtype: torch.dtype, *, max_len: int) -> list[ModelMemory]:
    return [checkpoint_memory(directory, name, dtype, max_len)]


def _published_memories(dtype: torch.dtype, *, max_len: int) -> list[ModelMemory]:
    types = (ModelType.CUSTOM_VOICE, ModelType.BASE)  # VoiceDesign takes what CustomVoice does
    return [published_memory(size, model_type, dtype, max_len) for size in TALKERS for model_type in types]


def check_directory(directory: Path, max_len: int) -> str:
    """Checks that everything that `build` reads is there and is consistent.  Returns the model's name.

    Raises ModelNotUsable.
    """
    if not directory.is_dir():
        raise ModelNotUsable(f"{directory} is not a directory, and this check downloads nothing")
    config = read_config(directory)
    codec = read_json(directory / CODEC_DIRECTORY / "config.json", CodecConfig)
    read_generation_config(directory)
    loading.check_max_len(config, max_len)
    load_tokenizer(directory, config)
    # The loaders check each tensor's shape, that no file is truncated, and that no tensor is unknown.
    loading.load_talker(directory, config, META, torch.float32)
    loading.load_codec(directory, config, codec, META)
    return model_name(directory.resolve().name, config)


def find_gpu(device: torch.device) -> Gpu | None:
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return Gpu(torch.cuda.get_device_name(device), free, total)


def report_gpu(memories: Sequence[ModelMemory], gpu: Gpu, slots: int | None, report: Report) -> None:
    """Reports the slots of this machine's GPU.  Raises ModelNotUsable if there are none, or fewer than `slots`."""
    report(f"ok    it runs on {gpu.name}: {gpu.free_bytes / GIB:.1f} of {gpu.total_bytes / GIB:.1f} GiB are free")
    for memory in memories:
        report(f"ok    {_summary(memory)}")
        fit, needed = memory.slots(gpu.free_bytes), slots or 1
        if len(memories) == 1 and fit < needed:
            raise ModelNotUsable(f"{memory.name}: {fit} slots fit into the GPU's memory, and {needed} are needed")
        allocated = slots or min(fit, loading.MAX_SLOTS)
        report(f"ok    {fit} slots fit, {allocated} are allocated: the memory's limit of sentences at once")


def report_gpu_sizes(memories: Sequence[ModelMemory], sizes_gb: Sequence[float], report: Report) -> None:
    """Reports a table of the slots of GPUs that are not in this machine."""
    for memory in memories:
        report(f"ok    {_summary(memory)}")
    widths = [max(9, len(memory.name)) for memory in memories]
    names = "  ".join(f"{memory.name:>{width}}" for memory, width in zip(memories, widths, strict=True))
    report(f"      Slots by GPU memory; at most {loading.MAX_SLOTS} are allocated unless the option `slots` is set:")
    report(f"      {'GPU of':>9}  {names}")
    for size_gb in sizes_gb:
        counts = [memory.slots(int(size_gb * GIB) - CUDA_CONTEXT_BYTES) for memory in memories]
        row = "  ".join(f"{count or 'too small':>{width}}" for count, width in zip(counts, widths, strict=True))
        report(f"      {f'{size_gb:g} GB':>9}  {row}")


def _summary(memory: ModelMemory) -> str:
    dtype = str(memory.dtype).removeprefix("torch.")
    return (
        f"{memory.name} in {dtype}: weights {memory.weights_bytes / GIB:.2f} GiB; a slot of {memory.max_len} positions"
        f" {memory.bytes_per_slot / MIB:.1f} MiB ({memory.talker_bytes_per_slot / MIB:.1f} of keys and values,"
        f" {memory.decoder_bytes_per_slot / MIB:.1f} of decoder state)"
    )
