"""How much one session may ask for.  Announced to the client in `session.created`."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class SessionLimits:
    max_message_bytes: int = 256 * 1024
    max_pending_chars: int = 100_000
    """Text received and not yet spoken: about two hours of speech."""
    max_utterance_chars: int = 1_000_000
    """Of one utterance, spoken or not: its text is kept to say what was heard of it."""
    max_sentence_chars: int = 300
    """Longer sentences are cut at a clause or a space.  20 s of speech at 24 kHz stay under the 1 MiB that common
    WebSocket clients accept as one message, for those who ask for whole files."""
    sentences_ahead: int = 1
    """Sentences handed to the engine behind the one that is being sent."""
    max_queued_messages: int = 1024
    """Outgoing messages that may wait for a client who does not read."""
    max_invalid_messages: int = 10
    """Bad messages in a row before the session is closed."""
    write_timeout_s: float = 30.0
    """A client is given up that takes nothing for so long, or that lies so far behind what waits for it."""
    max_contexts: int = 16
    """Open at once.  A cancelled one counts no more."""
    context_idle_s: float = 20.0
    """A named context that gets no input for so long is done, lest it hold up those behind it."""
    idle_s: float = 600.0
    """Client pools hold sockets for 300-600 s between turns."""
    session_s: float = 4 * 3600.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 0 or (value == 0 and name != "sentences_ahead"):
                raise ValueError(f"{name} must be positive, got {value}")
