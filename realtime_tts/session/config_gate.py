"""The rule for rejected configs: without an accepted one no utterance begins, and the session ends after a time.

Clients send config, text and end at once.  After a rejected config the text would be spoken in a voice and a format for
which the client did not ask.
"""

import math

from realtime_tts.errors import ConfigNotAccepted, ConfigTimeout, RealtimeTTSError


class ConfigGate:
    __slots__ = ("_has_accepted", "_rejection", "_timeout_s", "deadline_s")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._has_accepted = False
        self._rejection: RealtimeTTSError | None = None
        self.deadline_s = math.inf
        """When `timeout` changes."""

    @property
    def is_closed(self) -> bool:
        return self._rejection is not None

    def accept(self) -> None:
        self._has_accepted = True
        self._rejection, self.deadline_s = None, math.inf

    def reject(self, error: RealtimeTTSError, now_s: float, *, ends_session: bool) -> None:
        """`ends_session`: unless a config is accepted in time."""
        if self._has_accepted:
            return
        self._rejection = error
        if ends_session:
            self.deadline_s = min(self.deadline_s, now_s + self._timeout_s)

    def check(self) -> None:
        """Raises `ConfigNotAccepted` if no utterance may begin."""
        if self._rejection is not None:
            words = f"nothing is spoken before a `session.config` is accepted; the last was rejected: {self._rejection}"
            raise ConfigNotAccepted(words)

    def timeout(self, now_s: float) -> ConfigTimeout | None:
        """The error that ends the session, once it is due."""
        if now_s < self.deadline_s:
            return None
        return ConfigTimeout(f"no `session.config` was accepted within {self._timeout_s:g} s after a rejected one")
