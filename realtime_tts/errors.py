"""Every deliberate failure, each of which knows its own wire form: code, close code, and whether to try again."""

from typing import ClassVar


class RealtimeTTSError(Exception):
    """A failure that a client is told about in plain words.

    `code` is the wire's `error.code`.  `close_code` is the WebSocket close code, or None where the session goes on.
    `retryable` says that the same message may succeed later, unchanged.
    """

    code: ClassVar[str] = "internal_error"
    close_code: ClassVar[int | None] = None
    retryable: ClassVar[bool] = False
    retry_after_s: float | None = None
    """When to come again, where that is known."""

    @property
    def message(self) -> str:
        return str(self)


class InternalError(RealtimeTTSError):
    """A bug of ours.  Its text is for the log; the client sees only that it happened."""

    code = "internal_error"
    close_code = 1011
    retryable = True


# -- What a client sends ----------------------------------------------------------------------------------------------


class InvalidMessage(RealtimeTTSError):
    """A text frame that is not one of protocol.md's messages: unknown type, missing or wrongly typed field."""

    code = "invalid_message"


class MalformedMessage(InvalidMessage):
    """A text frame that is not JSON or not UTF-8: the peer does not speak this protocol (RFC 6455, 1007)."""

    close_code = 1007


class TooManyInvalidMessages(InvalidMessage):
    """A stream of bad messages: whoever sends it will not be helped by more error messages."""

    code = "too_many_invalid_messages"
    close_code = 1008


class UnexpectedMessage(RealtimeTTSError):
    """A well-formed message that is not allowed now."""

    code = "unexpected_message"


class ConfigRequired(UnexpectedMessage):
    """Anything but `session.config` first, on a server without a default voice."""

    close_code = 1008


class MessageTooBig(RealtimeTTSError):
    code = "message_too_big"
    close_code = 1009


class InvalidConfig(RealtimeTTSError):
    """A `session.config` value out of range, or one that the loaded model cannot honour."""

    code = "invalid_config"


class UnknownVoice(InvalidConfig):
    code = "unknown_voice"


class UnsupportedFormat(InvalidConfig):
    code = "unsupported_format"


class TextTooLong(RealtimeTTSError):
    """More text than there will ever be room for, in an utterance, a file or a model's prompt.  Send less at a time."""

    code = "text_too_long"


class TooMuchUnspoken(TextTooLong):
    """More text than may wait in one session.  Retry once some of it has been spoken."""

    retryable = True


class TooManyContexts(RealtimeTTSError):
    """As many contexts are open as may be; nothing of the message was taken.  Finish or cancel one first."""

    code = "too_many_contexts"
    retryable = True


class SessionEnding(RealtimeTTSError):
    """The session is about to end, as `session.expiring` told: nothing new begins.  Connect again."""

    code = "session_ending"
    retryable = True


# -- Over HTTP, or before a connection is accepted ---------------------------------------------------------------------


class Unauthorized(RealtimeTTSError):
    """No key, or none that is known here.  Never says which of both was near."""

    code = "unauthorized"


class QuotaExceeded(RealtimeTTSError):
    """The key has used up its share.  Nothing of what was asked was taken."""

    code = "quota_exceeded"
    retryable = True

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class UnsupportedMediaType(InvalidMessage):
    """JSON must say that it is: what a foreign page may send without asking first is never taken for it."""

    code = "unsupported_media_type"


class VoiceExists(InvalidConfig):
    """A voice is never replaced in silence: delete it first."""

    code = "voice_exists"


class VoiceStoreFull(RealtimeTTSError):
    """As many uploaded voices, or as many bytes of them, as the operator allows."""

    code = "voice_store_full"


# -- What an engine answers -------------------------------------------------------------------------------------------


class SynthesisError(RealtimeTTSError):
    """One sentence has failed; its session goes on."""

    code = "synthesis_failed"


class SynthesisFailed(SynthesisError):
    """A stage raised, or did not come back in time."""

    retryable = True


class SynthesisTruncated(SynthesisError):
    """The model did not come to the end of the text: what was made has been sent."""

    code = "synthesis_truncated"
    retryable = True


class NothingToSpeak(SynthesisError):
    """The text holds nothing that this voice can pronounce."""

    code = "nothing_to_speak"


class Overloaded(RealtimeTTSError):
    """One listener more would leave somebody without sound: refused before any audio."""

    code = "overloaded"
    close_code = 1013
    retryable = True

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class EngineUnavailable(SynthesisError):
    """The engine is stuck or stopping, so nothing new is taken."""

    code = "engine_unavailable"
    retryable = True


# -- Why a session ends -----------------------------------------------------------------------------------------------


class SlowClient(RealtimeTTSError):
    """The client has stopped reading: nothing more could be written for longer than the limit."""

    code = "slow_client"
    close_code = 1008


class SessionExpired(RealtimeTTSError):
    """The session's idle or life limit, announced in `session.created`, has passed."""

    code = "session_expired"
    close_code = 1001


class ServerStopping(RealtimeTTSError):
    code = "server_stopping"
    close_code = 1012
    retryable = True


# -- What an operator meets, and no client -----------------------------------------------------------------------------


class OperatorError(RealtimeTTSError):
    """Keeps the server from starting; told on the command line, in words that say what to do."""

    code = "cannot_start"


class ModelNotUsable(OperatorError):
    """Weights, voices or a package are missing, altered or of the wrong shape.  Says which, and what to do."""

    code = "model_not_usable"


class CannotListen(OperatorError):
    """The server's address is taken, unknown or not allowed."""

    code = "cannot_listen"


class InvalidKeys(OperatorError):
    """A key list that cannot be read.  Names the line, never its text: that may hold a key."""

    code = "invalid_keys"


class UnusableCertificate(OperatorError):
    """The certificate or its key cannot be read, or do not belong together."""

    code = "unusable_certificate"
