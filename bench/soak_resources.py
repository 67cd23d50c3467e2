"""Resources of a server process over time, and which of them it has not given back."""

import os
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

MAX_MEMORY_GROWTH = 0.05
"""Between the first and the last minute after the warm-up."""
MIN_DURATION_S = 180.0
"""Of a run whose memory is judged: before, the allocator's own caches still grow."""
WARM_UP_S = 120.0
WINDOW_S = 60.0
POOL_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""asyncio starts the threads of its pool as they are needed, and keeps them."""

_METRIC = re.compile(
    rb"^realtime_tts_(event_loop_tasks|sessions_active|engine_requests_active\S*) (\S+)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Sample:
    at_s: float
    memory_mb: float
    """Resident."""
    descriptors: int
    threads: int
    tasks: int
    sessions: int
    requests: int
    """In the engine."""

    @property
    def is_idle(self) -> bool:
        return self.sessions == 0 and self.requests == 0


def read_sample(pid: int, url: str, at_s: float) -> Sample:
    """Blocks.  Raises `OSError` if the process has ended or does not answer within 10 s."""
    process = Path(f"/proc/{pid}")
    pages = int((process / "statm").read_text("ascii").split()[1])
    threads = re.search(r"^Threads:\s+(\d+)$", (process / "status").read_text("ascii", "replace"), re.MULTILINE)
    descriptors = sum(1 for _ in (process / "fd").iterdir())
    with build_opener(ProxyHandler({})).open(f"{url}/metrics", timeout=10) as response:
        metrics = {name.partition(b"{")[0].decode(): float(value) for name, value in _METRIC.findall(response.read())}
    return Sample(
        at_s,
        pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        descriptors,
        int(threads[1]) if threads else 0,
        int(metrics["event_loop_tasks"]),
        int(metrics["sessions_active"]),
        int(metrics["engine_requests_active"]),
    )


def memory_growth(samples: Sequence[Sample]) -> float | None:
    """The share by which memory grew after the warm-up; None if the run is too short to tell."""
    if not samples or samples[-1].at_s < MIN_DURATION_S:
        return None
    end_s = samples[-1].at_s
    warm_up_s = min(WARM_UP_S, end_s / 3)
    window_s = min(WINDOW_S, (end_s - warm_up_s) / 3)
    first = [each.memory_mb for each in samples if warm_up_s <= each.at_s < warm_up_s + window_s]
    last = [each.memory_mb for each in samples if each.at_s > end_s - window_s]
    return statistics.median(last) / statistics.median(first) - 1


def leaks(before: Sample, samples: Sequence[Sample], after: Sample) -> list[str]:
    """What the server has not given back; `before` and `after` are of the idle server."""
    found = []
    growth = memory_growth(samples)
    if growth is not None and growth > MAX_MEMORY_GROWTH:
        found.append(f"memory grew by {growth:.1%} after the warm-up")
    if after.descriptors > before.descriptors:
        found.append(f"{after.descriptors} descriptors are open, {before.descriptors} before")
    if after.tasks > before.tasks:
        found.append(f"{after.tasks} tasks, {before.tasks} before")
    if after.threads > before.threads + POOL_THREADS:
        found.append(f"{after.threads} threads, {before.threads} before")
    if not after.is_idle:
        found.append(f"{after.sessions} sessions and {after.requests} requests have not ended")
    return found
