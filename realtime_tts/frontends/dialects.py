"""The dialects of the WebSocket protocol: our own, which vLLM-Omni's clients speak too, and SGLang-Omni's."""

from collections.abc import Iterable
from typing import Protocol

from realtime_tts.frontends.native.decode import Fields, audio_frame, read_message, to_input
from realtime_tts.frontends.native.encode import NativeEncoder
from realtime_tts.frontends.sglang.decode import to_inputs
from realtime_tts.frontends.sglang.encode import SGLangEncoder
from realtime_tts.session.events import SessionEvent
from realtime_tts.session.frontend import Frame
from realtime_tts.session.inputs import SessionInput


class Dialect(Protocol):
    """Decoder and encoder of one session."""

    def decode(self, kind: str, fields: Fields) -> tuple[SessionInput, ...]:
        """The inputs of one message.  Raises `InvalidMessage` or `InvalidConfig`."""
        ...

    def encode(self, event: SessionEvent) -> Iterable[Frame]: ...


class NativeDialect(NativeEncoder):
    def decode(self, kind: str, fields: Fields) -> tuple[SessionInput, ...]:
        return (to_input(kind, fields),)


class SGLangDialect(SGLangEncoder):
    def decode(self, kind: str, fields: Fields) -> tuple[SessionInput, ...]:
        return to_inputs(kind, fields)


class ClientDialect:
    """The dialect of one client: SGLang-Omni's if its first message is a config nested under `session`."""

    __slots__ = ("_decode", "_is_chosen", "_max_message_bytes", "_session_id", "encode")

    def __init__(self, session_id: str, max_message_bytes: int) -> None:
        self._session_id = session_id
        self._max_message_bytes = max_message_bytes
        self._is_chosen = False
        self._use(NativeDialect(session_id))

    def _use(self, dialect: Dialect) -> None:
        self._decode = dialect.decode
        self.encode = dialect.encode
        """The frames of one event."""

    def decode(self, data: bytes, *, is_binary: bool) -> tuple[SessionInput, ...]:
        """The inputs of one frame.  Raises a `RealtimeTTSError` for data that the dialect does not allow."""
        if is_binary:
            return (audio_frame(data, self._max_message_bytes),)
        kind, fields = read_message(data, max_message_bytes=self._max_message_bytes)
        if not self._is_chosen:
            self._is_chosen = True
            if kind == "session.config" and "session" in fields:
                self._use(SGLangDialect(self._session_id))
        return self._decode(kind, fields)
