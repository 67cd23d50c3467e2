"""Quotas of an API key: concurrent sessions, and characters a minute."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from realtime_tts.clock import Clock
from realtime_tts.errors import QuotaExceeded

SESSION_RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """Of one key, over all its sessions and requests.  None: no limit."""

    sessions: int | None = None
    characters_per_minute: int | None = None

    def __post_init__(self) -> None:
        for limit in (self.sessions, self.characters_per_minute):
            if limit is not None and limit < 1:
                raise ValueError(f"a quota must be at least 1, got {limit}")


class TokenBucket:
    """Token bucket with a capacity of one minute's amount, refilled evenly."""

    def __init__(self, per_minute: int, now_s: float) -> None:
        self._capacity = float(per_minute)
        self._level = self._capacity
        self._refilled_s = now_s

    def withdraw(self, amount: int, now_s: float) -> float | None:
        """None on success; otherwise nothing is withdrawn, and the result is the wait in seconds, `inf` for never."""
        if amount > self._capacity:
            return float("inf")
        self._level = min(self._capacity, self._level + (now_s - self._refilled_s) * self._capacity / 60.0)
        self._refilled_s = now_s
        if amount > self._level:
            return (amount - self._level) * 60.0 / self._capacity
        self._level -= amount
        return None


class KeyQuota:
    """The use of one key.  Shared by all its sessions; for one event loop."""

    def __init__(self, limits: QuotaLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        per_minute = limits.characters_per_minute
        self._bucket = None if per_minute is None else TokenBucket(per_minute, clock.now_s())
        self._sessions = 0

    @property
    def sessions(self) -> int:
        return self._sessions

    def charge(self, characters: int) -> None:
        """Raises `QuotaExceeded`, and then charges nothing."""
        if self._bucket is None:
            return
        wait_s = self._bucket.withdraw(characters, self._clock.now_s())
        if wait_s is None:
            return
        allowed = f"the quota of this key is {self._limits.characters_per_minute} characters a minute"
        if wait_s == float("inf"):
            raise QuotaExceeded(f"{allowed}, and this text alone has {characters}: send less at once")
        raise QuotaExceeded(f"{allowed}; retry in {wait_s:.1f} s", retry_after_s=wait_s)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Counts one session for the duration of the block.  Raises `QuotaExceeded`."""
        self.open_session()
        try:
            yield
        finally:
            self.close_session()

    def open_session(self) -> None:
        """Raises `QuotaExceeded`."""
        limit = self._limits.sessions
        if limit is not None and self._sessions >= limit:
            raise QuotaExceeded(
                f"this key has all of its {limit} concurrent sessions open", retry_after_s=SESSION_RETRY_S
            )
        self._sessions += 1

    def close_session(self) -> None:
        self._sessions -= 1


class QuotaBook:
    """The quota of each key, by the key's name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._quotas: dict[str, KeyQuota] = {}

    def of(self, name: str, limits: QuotaLimits) -> KeyQuota:
        if name not in self._quotas:
            self._quotas[name] = KeyQuota(limits, self._clock)
        return self._quotas[name]
