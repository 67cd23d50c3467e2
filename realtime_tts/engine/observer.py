"""Observers of an engine: of its batches, and of its commands and events."""

from functools import partial
from typing import Protocol

from realtime_tts.engine.api import EngineCommand, EngineEvent, EngineHandle, EngineStatus, EventSink, ModelInfo
from realtime_tts.engine.executor import Launch


class EngineObserver(Protocol):
    """Called on the engine's thread, between two batches: must be quick, and must not raise."""

    def on_batch(self, launch: Launch, seconds: float, queue_depth: int) -> None:
        """A batch returned, completed or failed, after `seconds`.

        `queue_depth`: the requests that had work for its stage when it was launched, and no room in it.  At the first
        stage these include the ones that waited for admission.
        """
        ...

    def on_idle(self) -> None:
        """The last request has ended."""
        ...


class NoEngineObserver:
    def on_batch(self, launch: Launch, seconds: float, queue_depth: int) -> None: ...

    def on_idle(self) -> None: ...


class EngineObservers:
    """Several observers as one, called in order."""

    def __init__(self, *observers: EngineObserver) -> None:
        self._observers = observers

    def on_batch(self, launch: Launch, seconds: float, queue_depth: int) -> None:
        for observer in self._observers:
            observer.on_batch(launch, seconds, queue_depth)

    def on_idle(self) -> None:
        for observer in self._observers:
            observer.on_idle()


class StreamObserver(Protocol):
    """Called on the event loop with every command and every event: must be quick, and must not raise."""

    def on_command(self, command: EngineCommand) -> None:
        """Called before the engine gets the command."""
        ...

    def on_event(self, event: EngineEvent) -> None:
        """Called after the request's sink has processed the event."""
        ...


class ObservedEngine:
    """An `EngineHandle` that forwards to another one and shows both streams to an observer."""

    def __init__(self, engine: EngineHandle, observer: StreamObserver) -> None:
        self._engine = engine
        self._observer = observer

    @property
    def info(self) -> ModelInfo:
        return self._engine.info

    def send(self, command: EngineCommand, sink: EventSink | None = None) -> None:
        self._observer.on_command(command)
        self._engine.send(command, None if sink is None else partial(self._deliver, sink))

    def status(self) -> EngineStatus:
        return self._engine.status()

    def _deliver(self, sink: EventSink, event: EngineEvent) -> None:
        try:
            sink(event)
        finally:
            self._observer.on_event(event)
