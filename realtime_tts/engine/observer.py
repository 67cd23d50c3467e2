"""What the engine tells whoever counts: each batch that has come back, and when there is nothing more to do."""

from typing import Protocol

from realtime_tts.engine.executors.thread import Launch


class EngineObserver(Protocol):
    """Called on the engine's thread, between two batches: must be quick, and must not raise."""

    def on_batch(self, launch: Launch, seconds: float, queue_depth: int) -> None:
        """A batch has come back, well or ill, after `seconds`.

        `queue_depth`: the requests that had work for its stage when it was launched, and no room in it.  At the first
        stage these are also the ones that waited for a place.
        """
        ...

    def on_idle(self) -> None:
        """The last request has left: nothing waits any more."""
        ...


class NoEngineObserver:
    def on_batch(self, launch: Launch, seconds: float, queue_depth: int) -> None: ...

    def on_idle(self) -> None: ...


class EngineObservers:
    """Several as one, told in order."""

    def __init__(self, *observers: EngineObserver) -> None:
        self._observers = observers

    def on_batch(self, launch: Launch, seconds: float, queue_depth: int) -> None:
        for observer in self._observers:
            observer.on_batch(launch, seconds, queue_depth)

    def on_idle(self) -> None:
        for observer in self._observers:
            observer.on_idle()
