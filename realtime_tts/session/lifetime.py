"""The lifetime of a session: idle limit, maximum duration, drain, and the warnings before each."""

from realtime_tts.session.events import Expiring
from realtime_tts.session.limits import SessionLimits

WARNING_S = 30.0
"""`Expiring` is sent so long before the idle limit and the maximum duration, if these are longer than twice that."""


class Lifetime:
    def __init__(self, limits: SessionLimits, now_s: float) -> None:
        self._limits = limits
        self._expires_s = now_s + limits.session_s
        self._active_s = now_s
        self._warned: set[str] = set()
        self.opened = False
        """Before the session is opened there is nobody to warn."""

    @property
    def deadline_s(self) -> float:
        """When something is due: see `is_over` and `warning`."""
        return min(self._due_s("idle"), self._due_s("ttl"))

    def touch(self, now_s: float) -> None:
        """Something was received or sent."""
        self._active_s = now_s
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
        """The session is to end, for the reason drain or ttl; None if the client knows already."""
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
