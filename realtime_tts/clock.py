"""Clocks.  They are passed in, so that tests and the simulator control the time."""

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
    """A clock that changes only by `advance`."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now_s(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"time does not go back, got {seconds} s")
        self._now_s += seconds


def unix_time_s() -> float:
    """Calendar time, for people and other machines; not for measuring durations."""
    return time.time()


def sleep_s(seconds: float) -> None:
    """Blocks this thread; a test model uses it in place of computing."""
    time.sleep(seconds)
