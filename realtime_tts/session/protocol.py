"""Legality of inputs: which input may follow in which state.  Sans-I/O: no waiting, no locks, no clock."""

from enum import StrEnum

from realtime_tts.errors import (
    ConfigRequired,
    RealtimeTTSError,
    TooManyInvalidMessages,
    UnexpectedMessage,
)
from realtime_tts.session.inputs import (
    AnswerInput,
    Audio,
    Cancel,
    Close,
    Commit,
    Configure,
    Conversation,
    Done,
    Flush,
    Image,
    KeepAlive,
    PlaybackReport,
    SessionInput,
    Text,
)
from realtime_tts.session.limits import SessionLimits


class State(StrEnum):
    NEW = "new"
    """Nothing accepted yet."""
    OPEN = "open"
    DRAINING = "draining"
    """The server is about to stop: open utterances are finished, and no others begin."""
    CLOSING = "closing"
    """The client has requested a close: earlier text is finished first."""
    CLOSED = "closed"


_ALWAYS: tuple[type[SessionInput], ...] = (Cancel, PlaybackReport, KeepAlive)
_WHILE_OPEN: tuple[type[SessionInput], ...] = (Configure, Text, Audio, Image, Conversation, Flush, Commit, Done)

RECEIVE: dict[tuple[State, type[SessionInput]], State] = {
    # All but Configure only if the model has a default voice, see `Protocol`.
    **{(State.NEW, each): State.OPEN for each in _WHILE_OPEN},
    **{(State.OPEN, each): State.OPEN for each in _WHILE_OPEN},
    **{(State.DRAINING, each): State.DRAINING for each in _WHILE_OPEN},
    **{(state, Close): State.CLOSING for state in (State.NEW, State.OPEN, State.DRAINING)},
    **{(state, each): state for state in State if state is not State.CLOSED for each in _ALWAYS},
}


class Protocol:
    """The state of one session, changed by its inputs."""

    __slots__ = ("_has_default_voice", "_invalid_in_a_row", "_limits", "state")

    def __init__(self, limits: SessionLimits, *, has_default_voice: bool) -> None:
        self.state = State.NEW
        self._limits = limits
        self._has_default_voice = has_default_voice
        self._invalid_in_a_row = 0

    def receive(self, item: SessionInput) -> None:
        """Raises a `RealtimeTTSError` for an input that is not allowed; its `close_code`, if any, ends the session."""
        needs_voice = isinstance(item, Text | AnswerInput | Flush | Commit | Done)
        if self.state is State.NEW and needs_voice and not self._has_default_voice:
            raise self.rejected(ConfigRequired("the first message must be `session.config`: there is no default voice"))
        if (self.state, type(item)) not in RECEIVE:
            words = f"`{type(item).__name__}` is not allowed while the session is {self.state}"
            raise self.rejected(UnexpectedMessage(words))
        self.state = RECEIVE[self.state, type(item)]
        self._invalid_in_a_row = 0

    def rejected(self, error: RealtimeTTSError) -> RealtimeTTSError:
        """Counts an invalid input and returns the error to report; too many in a row end the session."""
        if self.state is State.NEW and isinstance(error, UnexpectedMessage):
            error = ConfigRequired(error.message)
        self._invalid_in_a_row += 1
        if error.close_code is None and self._invalid_in_a_row > self._limits.max_invalid_messages:
            error = TooManyInvalidMessages(f"{self._invalid_in_a_row} invalid messages in a row; the last: {error}")
        if error.close_code is not None:
            self.state = State.CLOSED
        return error

    def drain(self) -> None:
        if self.state in (State.NEW, State.OPEN):
            self.state = State.DRAINING

    def close(self) -> None:
        self.state = State.CLOSED
