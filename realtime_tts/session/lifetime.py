"""The lifetime of a session: idle limit, maximum duration, drain, and the warnings before each."""

from realtime_tts.session.events import Expiring
from realtime_tts.session.limits import SessionLimits

WARNING_S = 30.0
"""`Expiring` is sent this long before the idle limit or the maximum duration, unless that is under twice as long."""


class Lifetime:
    __slots__ = ("_active_s", "_expires_s", "_limits", "_warned", "opened")

    def __init__(self, limits: SessionLimits, now_s: float) -> None:
        self._limits = limits
        self._expires_s = now_s + limits.session_s
        self._active_s = now_s
        self._warned: set[str] = set()
        self.opened = False
        """A session that is not open sends no warnings."""

    @property
    def deadline_s(self) -> float:
        """When `is_over` or `warning` changes next."""
        return min(self._due_s("idle"), self._due_s("ttl"))

    def touch(self, now_s: float) -> None:
        """A message was received or sent."""
        self._active_s = now_s
        if self._warned:
            self._warned.discard("idle")

    def is_over(self, now_s: float) -> bool:
        return now_s >= min(self._expires_s, self._active_s + self._limits.idle_s)

    def warning(self, now_s: float) -> Expiring | None:
        """The warning that is due.  One with the reason ttl is only reported: `expire` sends it."""
        if now_s >= self._due_s("ttl"):
            return Expiring("ttl", self._expires_s - now_s)
        if now_s >= self._due_s("idle"):
            self._warned.add("idle")
            return Expiring("idle", self._active_s + self._limits.idle_s - now_s)
        return None

    def expire(self, reason: str, deadline_s: float) -> Expiring | None:
        """The warning of an end for the reason drain or ttl; None if the client was already warned."""
        if {"drain", "ttl"} & self._warned:
            return None
        self._warned.update(("ttl", reason))
        return Expiring(reason, max(0.0, deadline_s))

    def _due_s(self, kind: str) -> float:
        """When a warning is due, or, after it, the limit itself."""
        length_s = self._limits.idle_s if kind == "idle" else self._limits.session_s
        end_s = self._active_s + length_s if kind == "idle" else self._expires_s
        warns = kind not in self._warned and length_s > 2 * WARNING_S and self.opened
        return end_s - WARNING_S if warns else end_s
