"""The interface of a front end: one wire protocol on one connection."""

from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple, Protocol

from realtime_tts.session.events import SessionEvent
from realtime_tts.session.inputs import SessionInput


class Frame(NamedTuple):
    """One message on the wire."""

    data: bytes
    is_binary: bool = False
    """For transports that distinguish; text is UTF-8."""
    audio_s: float = 0.0
    """Seconds of audio in it, which the listener plays once it has arrived."""


class FrontEnd(Protocol):
    """Decodes inputs, encodes events, moves both.

    One reader and one writer task use it.  Methods that reach the client raise `ConnectionError` once it is gone.
    """

    async def receive(self) -> Iterable[SessionInput] | None:
        """The next inputs, or None after the client has closed.

        Raises a `RealtimeTTSError` for data that the protocol does not allow: the session reports it.
        """
        ...

    def encode(self, event: SessionEvent) -> Iterable[Frame]:
        """The frames of one event.  Frames of a cancelled sentence may be left unsent."""
        ...

    def send(self, frame: Frame) -> Coroutine[Any, Any, bool]:
        """Writes one frame; waits while the client does not read.  Up to that wait it may run outside of a task.

        Returns whether it was written to the socket at once, so that the client may already have it.
        """
        ...

    async def close(self, code: int, reason: str) -> None:
        """The regular end, after the last frame.  `code` is a WebSocket close code."""
        ...

    def abort(self) -> None:
        """Drops the connection without a word."""
        ...
