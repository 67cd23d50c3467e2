"""Installation check of `doctor`: the parts of a directory, their sizes, and the conversations that fit on a GPU."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from realtime_tts.engine.models.qwen3_omni import loading
from realtime_tts.engine.models.qwen3_omni.memory import PUBLISHED_VALUES, OmniMemory
from realtime_tts.engine.models.qwen3_omni.model_info import model_name
from realtime_tts.engine.models.qwen3_omni.weights import CODEC_DTYPE
from realtime_tts.engine.models.spec import Report
from realtime_tts.errors import ModelNotUsable

GPU_SIZES_GB = (16, 24, 48, 80, 96, 141)
"""Sizes as sold, whose GB are GiB within 1%."""
CUDA_CONTEXT_BYTES = 512 * 1024**2
"""Taken by CUDA and its libraries before anything is loaded: an estimate, for a GPU that is not in this machine."""
GIB, MIB = 1024**3, 1024**2


def check_installation(options: Mapping[str, Any], gpu_memory_gb: float | None, report: Report) -> None:
    """Checks the directory and reports the memory of its parts; without a `model_dir`, that of the published sizes.

    `options` are all those of `build`.  The conversations that fit are those of the GPU of this machine; if it has
    none, those of common GPUs, or of one of `gpu_memory_gb`.  Raises ModelNotUsable for what prevents use.
    """
    load_options = loading.load_options(**{k: v for k, v in options.items() if k not in ("model_dir", "progress")})
    if options["model_dir"] is None:
        report("ok    no directory is given: these are the published sizes in bfloat16")
        for name, values in PUBLISHED_VALUES.items():
            item_bytes = (CODEC_DTYPE if name == "Code2Wav" else torch.bfloat16).itemsize
            report(f"ok    {name}: {values / 1e9:.3f} G values, {values * item_bytes / GIB:.2f} GiB")
        return
    directory = Path(options["model_dir"]).expanduser()
    if not directory.is_dir():
        raise ModelNotUsable(f"{directory} is not a directory, and this check downloads nothing")
    config = loading.check_directory(directory, load_options)
    name = model_name(directory.resolve().name)
    report(f"ok    {name}: configuration, tokenizer and every tensor are there (headers read, no weights loaded)")
    if config.speech is None:
        report("ok    it answers in text alone: it has no Talker")
    memory = loading.memory_of(directory, config, load_options)
    report_parts(memory, load_options, report)
    if gpu_memory_gb is not None:
        report_gpu_sizes(memory, (gpu_memory_gb,), report)
    elif load_options.device.type == "cuda":
        report_gpu(memory, load_options.device, report)
    else:
        report("SLOW  without a GPU it runs on the CPU: with correct output, but slower than realtime")
        report_gpu_sizes(memory, GPU_SIZES_GB, report)


def report_parts(memory: OmniMemory, options: loading.LoadOptions, report: Report) -> None:
    dtype = str(options.dtype).removeprefix("torch.")
    for part in memory.parts:
        shown = "float32" if part.name == "Code2Wav" else dtype
        report(f"ok    {part.name}: {part.values / 1e9:.3f} G values in {shown}, {part.bytes / GIB:.2f} GiB")
    report(
        f"ok    a conversation: {memory.thinker_bytes_per_slot / MIB:.1f} MiB for {options.thinker_max_len} positions"
        f" of the Thinker, {memory.speech_bytes_per_slot / MIB:.1f} MiB for {options.max_len} of the Talker and decoder"
    )


def report_gpu(memory: OmniMemory, device: torch.device, report: Report) -> None:
    """Reports the conversations that fit on this machine's GPU.  Raises ModelNotUsable if there are none."""
    free, total = torch.cuda.mem_get_info(device)
    report(f"ok    it runs on {torch.cuda.get_device_name(device)}: {free / GIB:.1f} of {total / GIB:.1f} GiB are free")
    fit = memory.slots(free)
    if not fit and not memory.speech_slots(free):
        raise ModelNotUsable("neither the model nor its speech alone fits into the GPU's memory")
    if fit:
        report(f"ok    {fit} conversations fit, {min(fit, loading.MAX_SLOTS)} are allocated")
    else:
        report("ok    only the Talker and Code2Wav fit: set thinker_device to another GPU")


def report_gpu_sizes(memory: OmniMemory, sizes_gb: Sequence[float], report: Report) -> None:
    """Reports a table of the conversations that fit on GPUs that are not in this machine."""
    report(f"      Conversations by GPU memory; at most {loading.MAX_SLOTS} are allocated unless `slots` is set:")
    report(f"      {'GPU of':>9}  {'all parts':>10}  {'Thinker':>10}  {'speech':>10}")
    for size_gb in sizes_gb:
        free = int(size_gb * GIB) - CUDA_CONTEXT_BYTES
        counts = (memory.slots(free), memory.thinker_slots(free), memory.speech_slots(free))
        row = "  ".join(f"{count or 'too small':>10}" for count in counts)
        report(f"      {f'{size_gb:g} GB':>9}  {row}")
