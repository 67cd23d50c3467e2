"""The interface of a session observer, for metrics and traces."""

from typing import Protocol

from realtime_tts.session.events import SessionEvent


class SessionObserver(Protocol):
    """Called on the event loop; must be quick, and must not raise."""

    def on_event(self, event: SessionEvent, now_s: float) -> None:
        """`event`, which is not an `AudioChunk`, was sent to the client."""
        ...

    def on_send_queue(self, unsent_s: float) -> None:
        """`unsent_s` seconds of audio wait for the client to read."""
        ...


class NoObserver:
    def on_event(self, event: SessionEvent, now_s: float) -> None: ...

    def on_send_queue(self, unsent_s: float) -> None: ...
