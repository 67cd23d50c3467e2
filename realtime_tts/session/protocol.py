"""Which message may follow which?  A sans-I/O table: it never waits, locks or reads a clock."""

from enum import StrEnum

from realtime_tts.errors import (
    ConfigRequired,
    MessageTooBig,
    RealtimeTTSError,
    TooManyInvalidMessages,
    UnexpectedMessage,
)
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.messages import (
    ClientMessage,
    InputCancel,
    InputDone,
    InputFlush,
    InputText,
    PlaybackReport,
    SessionClose,
    SessionConfig,
    SessionKeepalive,
    decode_client_message,
)

PROTOCOL = "realtime-tts.v1"
"""The WebSocket subprotocol; a client may leave it out."""
STREAM_PATH = "/v1/audio/speech/stream"


class State(StrEnum):
    NEW = "new"
    """Nothing accepted yet."""
    OPEN = "open"
    DRAINING = "draining"
    """The server is going away: what has begun is finished, and nothing new begins."""
    CLOSING = "closing"
    """The client has asked to close: what it asked for before is finished first."""
    CLOSED = "closed"


_ALWAYS: tuple[type[ClientMessage], ...] = (InputCancel, PlaybackReport, SessionKeepalive)
_WHILE_OPEN: tuple[type[ClientMessage], ...] = (SessionConfig, InputText, InputFlush, InputDone)

RECEIVE: dict[tuple[State, type[ClientMessage]], State] = {
    # Text, flush and done only where the server has a default voice, see `Protocol`.
    **{(State.NEW, message): State.OPEN for message in _WHILE_OPEN},
    **{(State.OPEN, message): State.OPEN for message in _WHILE_OPEN},
    **{(State.DRAINING, message): State.DRAINING for message in _WHILE_OPEN},
    **{(state, SessionClose): State.CLOSING for state in (State.NEW, State.OPEN, State.DRAINING)},
    **{(state, message): state for state in State if state is not State.CLOSED for message in _ALWAYS},
}


class Protocol:
    """The state of one connection, moved by the frames that come in."""

    def __init__(self, limits: SessionLimits, *, has_default_voice: bool) -> None:
        self.state = State.NEW
        self._limits = limits
        self._has_default_voice = has_default_voice
        self._invalid_in_a_row = 0

    def receive(self, data: str | bytes) -> ClientMessage:
        """One frame to one message that is allowed now.

        Raises a `RealtimeTTSError`; where it has a `close_code` the connection is over, else it goes on.
        """
        try:
            message = self._legal(data)
        except RealtimeTTSError as error:
            self._invalid_in_a_row += 1
            if error.close_code is None and self._invalid_in_a_row > self._limits.max_invalid_messages:
                error = TooManyInvalidMessages(f"{self._invalid_in_a_row} bad messages in a row; the last: {error}")
            if error.close_code is not None:
                self.state = State.CLOSED
            raise error from None
        self._invalid_in_a_row = 0
        return message

    def drain(self) -> None:
        if self.state in (State.NEW, State.OPEN):
            self.state = State.DRAINING

    def close(self) -> None:
        self.state = State.CLOSED

    def _legal(self, data: str | bytes) -> ClientMessage:
        size_bytes = len(data.encode("utf-8", "surrogatepass")) if isinstance(data, str) else len(data)
        if size_bytes > self._limits.max_message_bytes:
            raise MessageTooBig(f"a message may have {self._limits.max_message_bytes} bytes, this has {size_bytes}")
        if isinstance(data, bytes):
            self._refuse_before_config("a binary frame")
            raise UnexpectedMessage("binary frames only go from server to client")
        message = decode_client_message(data)
        if (
            self.state is State.NEW
            and isinstance(message, InputText | InputFlush | InputDone)
            and not self._has_default_voice
        ):
            self._refuse_before_config(f"`{message.type}`")
        if (self.state, type(message)) not in RECEIVE:
            raise UnexpectedMessage(f"`{message.type}` is not allowed while the session is {self.state}")
        self.state = RECEIVE[self.state, type(message)]
        return message

    def _refuse_before_config(self, what: str) -> None:
        if self.state is State.NEW:
            raise ConfigRequired(f"the first message must be `session.config`, not {what}")
