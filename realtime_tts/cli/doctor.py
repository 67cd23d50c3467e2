"""`realtime-tts doctor`: a check of the installation, and an estimate of the streams that this machine serves."""

import platform
import statistics
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any

from realtime_tts.clock import Clock, MonotonicClock
from realtime_tts.engine import models
from realtime_tts.engine.api import AudioReady, EngineEvent, RequestFinished, Submit, SynthesisRequest
from realtime_tts.engine.engine import Engine
from realtime_tts.engine.executor import InlineExecutor
from realtime_tts.engine.stage import Model
from realtime_tts.errors import RealtimeTTSError

SENTENCES = (
    "The quick brown fox jumps over the lazy dog near the bank of the river.",
    "A realtime voice server streams its speech while the text is still being written.",
    "Please remember to bring the signed documents to the office tomorrow morning.",
)
PACKAGES = ("aiohttp", "uvloop", "websockets", "msgspec", "multipart", "numpy", "soxr", "sentencex")
"""Needed with any model."""
HEADROOM = 0.85
"""The share of the machine that synthesis may use; the rest is for other processes (design of the scheduler)."""

Report = Callable[[str], None]


def check_installation(name: str, options: dict[str, Any], report: Report, gpu_memory_gb: float | None = None) -> bool:
    """Checks and measures the model `name`; reports each finding in a line.  Returns whether speech works here.

    `options` are those of the model's `build`.  A model that is too large to load for a check reports its memory
    instead; `gpu_memory_gb` asks about a GPU that is not in this machine.
    """
    report(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    missing = _missing(PACKAGES, report)
    try:
        spec = models.find(name)
        if _missing(spec.required_packages, report):
            return False
        if spec.check is None:
            _check_speech(name, options, report)
        else:
            spec.check(spec.complete_options(options), gpu_memory_gb, report)
    except RealtimeTTSError as error:
        report(f"FAIL  {name}: {error}")
        return False
    return not missing


def _missing(packages: Iterable[str], report: Report) -> set[str]:
    missing = set()
    for package in packages:
        try:
            report(f"ok    {package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            if package == "uvloop" and platform.system() == "Windows":
                continue
            missing.add(package)
            report(f"FAIL  {package} is not installed: pip install {package}")
    return missing


def _check_speech(name: str, options: dict[str, Any], report: Report) -> None:
    clock = MonotonicClock()
    started_s = clock.now_s()
    model = models.build(name, **options)
    voices = len(model.info.voices)
    report(f"ok    weights and {voices} voices verified, loaded in {clock.now_s() - started_s:.1f} s")
    first_audio_s, rtfs = zip(*(_measure(model, text, clock) for text in SENTENCES), strict=True)
    rtf = statistics.median(rtfs)
    first_ms = statistics.median(first_audio_s) * 1000
    report(f"ok    first audio after {first_ms:.0f} ms, RTF {rtf:.2f} (medians of {len(rtfs)})")
    streams = int(HEADROOM / rtf)
    report(
        f"ok    this machine serves about {streams} concurrent stream{'' if streams == 1 else 's'} without underruns"
        if streams
        else f"SLOW  one second of speech takes {rtf:.1f} s here: even a single stream has underruns"
    )


def _measure(model: Model, text: str, clock: Clock) -> tuple[float, float]:
    """Seconds to the first audio, and RTF, of one sentence alone."""
    events: list[EngineEvent] = []
    arrivals_s: list[float] = []

    def emit(new: list[EngineEvent]) -> None:
        events.extend(new)
        arrivals_s.extend(clock.now_s() for event in new if isinstance(event, AudioReady))

    engine = Engine(model, InlineExecutor(model), clock, emit=emit)
    started_s = clock.now_s()
    engine.handle(Submit(SynthesisRequest("doctor", "doctor", text, model.info.default_voice or "")))
    while engine.step():
        pass
    end = events[-1]
    assert isinstance(end, RequestFinished)
    if end.error is not None:
        raise end.error
    audio_s = sum(len(event.samples) for event in events if isinstance(event, AudioReady)) / model.info.sample_rate_hz
    return arrivals_s[0] - started_s, (clock.now_s() - started_s) / audio_s
