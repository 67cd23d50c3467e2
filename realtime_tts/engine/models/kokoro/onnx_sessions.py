"""onnxruntime sessions, with settings for a server that shares its cores."""

import ctypes
from pathlib import Path
from typing import Any

import onnxruntime

from realtime_tts.errors import ModelNotUsable


def load_session(path: Path, *, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Threads spin for a moment between the operators of a run, and never between runs, where the pools of the two
    # graphs would compete for the cores.  Alternating, medians of 8: the acoustic graph 138 ms against 155 without, a
    # chunk of 12 frames 162 against 170, one of 40 394 against 411, for 2% more CPU time; spinning longer costs 5% more
    # and is no faster.
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.add_session_config_entry("session.intra_op.spin_duration_us", "100")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # Every length has its own memory pattern and none is reused: 351 MB against 410 after 40 varied sentences.
    options.enable_mem_pattern = False
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises its own classes, which share no documented base
        raise ModelNotUsable(f"onnxruntime cannot load {path.name}: {error}") from error


def return_free_memory() -> None:
    """Returns to the system the memory that only loading needed and glibc keeps: 459 MB resident instead of 818.

    Does nothing with another C library.
    """
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        return
