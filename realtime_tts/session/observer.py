"""What a session tells whoever counts: metrics and traces, never its client."""

from typing import Protocol

from realtime_tts.session.messages import AudioDone, SessionDone


class SessionObserver(Protocol):
    """Called on the event loop, once for each thing that has happened; must be quick, and must not raise."""

    def sentence_done(self, done: AudioDone) -> None: ...

    def utterance_done(self, done: SessionDone, threshold_ms: float) -> None: ...

    def cancelled(self, latency_s: float, wasted_audio_s: float) -> None:
        """A barge-in: from the message to its answer, and the sound that was sent and not heard."""
        ...

    def send_queue(self, unsent_ms: float) -> None:
        """How much sound waits for one client to read."""
        ...


class NoObserver:
    def sentence_done(self, done: AudioDone) -> None: ...

    def utterance_done(self, done: SessionDone, threshold_ms: float) -> None: ...

    def cancelled(self, latency_s: float, wasted_audio_s: float) -> None: ...

    def send_queue(self, unsent_ms: float) -> None: ...
