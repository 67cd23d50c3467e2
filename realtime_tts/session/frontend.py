"""The interface of a front end: one wire protocol on one connection."""

from collections.abc import Coroutine, Iterable
from typing import Any, Protocol

from msgspec import Struct

from realtime_tts.session.events import SessionEvent
from realtime_tts.session.inputs import SessionInput


class Frame(Struct, frozen=True, gc=False):
    """One message on the wire.  A Struct, since there are many: it is created in C."""

    data: bytes
    is_binary: bool = False
    """For transports that distinguish; text is UTF-8."""
    audio_s: float = 0.0
    """Seconds of audio in it."""


class FrontEnd(Protocol):
    """Decodes inputs, encodes events, receives and sends both.

    One reader and one writer task use it.  Its methods raise `ConnectionError` once the client has disconnected.
    """

    async def receive(self) -> Iterable[SessionInput] | None:
        """The next inputs, or None after the client has closed.

        Raises a `RealtimeTTSError` for data that the protocol does not allow: the session reports it.
        """
        ...

    def encode(self, event: SessionEvent) -> Iterable[Frame]:
        """The frames of one event.  Frames of a cancelled sentence may be left unsent."""
        ...

    def send(self, frame: Frame) -> Coroutine[Any, Any, None] | None:
        """Writes one frame.  The result, if any, is to be awaited: it waits while the client does not read.

        It may be an `async def`; up to its first wait it may run outside of a task.
        """
        ...

    async def close(self, code: int, reason: str) -> None:
        """The regular end, after the last frame.  `code` is a WebSocket close code."""
        ...

    def abort(self) -> None:
        """Drops the connection without a close frame."""
        ...
