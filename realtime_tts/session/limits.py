"""Limits of one session, announced to the client in `session.created`."""

from dataclasses import asdict, dataclass
from typing import Protocol


class Quota(Protocol):
    """A limit of the characters that a client may have spoken."""

    def charge(self, characters: int) -> None:
        """Counts characters.  Raises a `RealtimeTTSError`, and counts none, if they exceed the rest of the quota."""
        ...


@dataclass(frozen=True, slots=True)
class SessionLimits:
    max_message_bytes: int = 256 * 1024
    max_pending_chars: int = 100_000
    """Text received and not yet spoken: about two hours of speech."""
    max_utterance_chars: int = 1_000_000
    """Of one utterance: all its text is kept, so that a cancel can report which part was played."""
    max_sentence_chars: int = 300
    """Longer sentences are divided at a clause or a space.  20 s of speech at 24 kHz stay under 1 MiB, the largest
    message that common WebSocket clients accept: this matters for clients that request whole files."""
    sentences_ahead: int = 1
    """Sentences submitted to the engine after the one that is being sent."""
    max_queued_messages: int = 1024
    """Outgoing messages that may wait for a client that does not read."""
    max_queued_bytes: int = 8 * 1024 * 1024
    """Memory of these messages, without audio: a text of `max_utterance_chars`, as a cancel reports it, needs 4 MB."""
    max_invalid_messages: int = 10
    """Invalid messages in a row before the session is closed."""
    config_s: float = 10.0
    """A session whose first config was rejected is closed if none is accepted within this time: the public servers of
    this protocol close it at once, and their clients wait for that."""
    write_timeout_s: float = 30.0
    """A client is disconnected if it reads nothing for this time, or has read this much less than it could play."""
    max_contexts: int = 16
    """Open at the same time.  A cancelled context no longer counts."""
    context_idle_s: float = 20.0
    """A named context without input for this time ends, so that the contexts after it are not delayed."""
    idle_s: float = 600.0
    """Client pools keep idle sockets for 300-600 s."""
    session_s: float = 4 * 3600.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 0 or (value == 0 and name != "sentences_ahead"):
                raise ValueError(f"{name} must be positive, got {value}")
