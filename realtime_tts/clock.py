"""What time is it?  Passed in wherever it matters, so that tests and the simulator own their time."""

import time
from typing import Protocol


class Clock(Protocol):
    def now_s(self) -> float:
        """Seconds since an arbitrary fixed point; never goes back."""
        ...


class MonotonicClock:
    def now_s(self) -> float:
        return time.monotonic()


class VirtualClock:
    """Stands still until it is told to move."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now_s(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"time does not go back, got {seconds} s")
        self._now_s += seconds


def unix_time_s() -> float:
    """The calendar's time, for people and other machines; never for measuring."""
    return time.time()


def sleep_s(seconds: float) -> None:
    """Blocks this thread: how a test model spends the time that a real one would compute."""
    time.sleep(seconds)
