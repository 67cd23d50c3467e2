"""Deliberate errors, each with its form on the wire: code, WebSocket close code, HTTP status, field, retry-after."""

from typing import ClassVar


class RealtimeTTSError(Exception):
    """An error that is reported to a client.

    `code` is the wire's `error.code`.  `close_code` is the WebSocket close code, or None if the session continues.
    `http_status` is the status of an HTTP response.  `retryable` says that the same message may succeed later,
    unchanged; `retry_after_s` after how long, where that is known.  `param` names the field that is wrong; `message`
    then begins with it.
    """

    code: ClassVar[str] = "internal_error"
    close_code: ClassVar[int | None] = None
    http_status: ClassVar[int] = 400
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, param: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.retry_after_s = retry_after_s

    @property
    def message(self) -> str:
        return str(self)

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.param is None else f"{self.param}: {text}"


class InternalError(RealtimeTTSError):
    """A bug in the server.  The details go to the log; the client is not sent them."""

    code = "internal_error"
    close_code = 1011
    http_status = 500
    retryable = True


# -- Invalid input ----------------------------------------------------------------------------------------------------


class InvalidMessage(RealtimeTTSError):
    """A message or a request body that protocol.md does not allow: unknown type, missing or wrongly typed field."""

    code = "invalid_message"


class UnreadableConfig(InvalidMessage):
    """A `session.config` with a field of a wrong type.  Nothing of it is applied."""


class MalformedMessage(InvalidMessage):
    """A text frame that is not JSON or not UTF-8 (RFC 6455, close code 1007)."""

    close_code = 1007


class TooManyInvalidMessages(InvalidMessage):
    """More invalid messages in a row than the limit."""

    code = "too_many_invalid_messages"
    close_code = 1008


class UnexpectedMessage(RealtimeTTSError):
    """A valid message that is not allowed in the session's present state."""

    code = "unexpected_message"


class ConfigRequired(UnexpectedMessage):
    """A first message other than `session.config`, on a server without a default voice."""

    close_code = 1008


class ConfigNotAccepted(RealtimeTTSError):
    """Text, although the first `session.config` was rejected and none was accepted since: it is not spoken."""

    code = "config_rejected"


class ConfigTimeout(ConfigNotAccepted):
    """No `session.config` was accepted within `config_s` after the first was rejected."""

    close_code = 1008


class MessageTooBig(RealtimeTTSError):
    """A message or a request body above its limit in bytes."""

    code = "message_too_big"
    close_code = 1009
    http_status = 413


class InvalidConfig(RealtimeTTSError):
    """A configuration value out of range, or one that the model does not support."""

    code = "invalid_config"


class UnknownVoice(InvalidConfig):
    code = "unknown_voice"


class VoiceNotFound(UnknownVoice):
    """The URL names a voice that does not exist."""

    http_status = 404


class ModelNotFound(RealtimeTTSError):
    """The URL names a model that does not exist."""

    code = "model_not_found"
    http_status = 404


class UnsupportedFormat(InvalidConfig):
    code = "unsupported_format"


class InvalidMedia(InvalidMessage):
    """Audio or an image of a conversation that is not what it claims to be, too large, too long, or not supported."""

    code = "invalid_media"


class TextTooLong(RealtimeTTSError):
    """More text than one utterance, one file or the model's prompt can hold.  Send less at a time."""

    code = "text_too_long"


class BatchTooBig(RealtimeTTSError):
    """A batch has more items or more text than the limit; nothing of it is spoken.  Send several batches."""

    code = "batch_too_big"


class TooMuchUnspoken(TextTooLong):
    """More unspoken text than one session may hold.  Retry after some of it has been spoken."""

    retryable = True


class TooManyContexts(RealtimeTTSError):
    """The session's limit of open contexts is reached; the message was not applied.  Finish or cancel a context."""

    code = "too_many_contexts"
    retryable = True


class SessionEnding(RealtimeTTSError):
    """`session.expiring` was sent, so nothing new begins.  Open a new connection."""

    code = "session_ending"
    http_status = 503
    retryable = True


# -- Refused before a session begins ----------------------------------------------------------------------------------


class InvalidRequest(RealtimeTTSError):
    """An HTTP request that is not valid as such."""

    code = "invalid_request"


class ExpectationFailed(InvalidRequest):
    """An Expect header other than `100-continue`."""

    http_status = 417


class UnsupportedWebSocketVersion(InvalidRequest):
    """A handshake of another version than 13 (RFC 6455, 4.2.2)."""

    http_status = 426


class NotFound(RealtimeTTSError):
    """No resource has this URL."""

    code = "not_found"
    http_status = 404


class MethodNotAllowed(RealtimeTTSError):
    code = "method_not_allowed"
    http_status = 405


class RequestTooBig(RealtimeTTSError):
    """A request body above the server's limit, refused before it is read."""

    code = "request_too_big"
    http_status = 413


class Unauthorized(RealtimeTTSError):
    """No API key, or one that is not known.  The message does not say which."""

    code = "unauthorized"
    http_status = 401


class HostNotAllowed(RealtimeTTSError):
    code = "host_not_allowed"
    http_status = 403


class OriginNotAllowed(RealtimeTTSError):
    code = "origin_not_allowed"
    http_status = 403


class QuotaExceeded(RealtimeTTSError):
    """The API key's quota is used up.  The request was not applied."""

    code = "quota_exceeded"
    http_status = 429
    retryable = True


class UnknownScheduler(RealtimeTTSError):
    """The URL names a scheduler that no engine runs."""

    code = "unknown_scheduler"


class TokensNotNeeded(RealtimeTTSError):
    """The server does not require API keys, so it issues no tokens."""

    code = "tokens_not_needed"
    http_status = 404


class NotReady(RealtimeTTSError):
    """The server is loading, draining or stopping, or an engine is stuck."""

    code = "not_ready"
    http_status = 503
    retryable = True


class UnsupportedMediaType(InvalidMessage):
    """The Content-Type is missing or not supported.  A page of another origin can send a body only without one that
    counts here, so such a body is never read as JSON."""

    code = "unsupported_media_type"
    http_status = 415


class VoiceExists(InvalidConfig):
    """An uploaded voice of this name exists: delete it first."""

    code = "voice_exists"
    http_status = 409


class VoiceStoreFull(RealtimeTTSError):
    """The limit of uploaded voices, by number or by bytes, is reached."""

    code = "voice_store_full"
    http_status = 507


# -- From the engine --------------------------------------------------------------------------------------------------


class SynthesisError(RealtimeTTSError):
    """One sentence failed; its session continues."""

    code = "synthesis_failed"
    http_status = 500


class SynthesisFailed(SynthesisError):
    """A stage raised an exception, or did not return in time."""

    retryable = True


class SynthesisTruncated(SynthesisError):
    """The model stopped before the end of the text.  The audio made so far was sent."""

    code = "synthesis_truncated"
    retryable = True


class NothingToSpeak(SynthesisError):
    """The text contains nothing that the voice can pronounce."""

    code = "nothing_to_speak"
    http_status = 400


class Overloaded(RealtimeTTSError):
    """The capacity is used up: one more listener would cause gaps.  Refused before any audio."""

    code = "overloaded"
    close_code = 1013
    http_status = 503
    retryable = True

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message, retry_after_s=retry_after_s)


class WaitedTooLong(Overloaded):
    """The request was queued for the longest permitted time.  No other engine of this server is asked."""


class EngineUnavailable(SynthesisError):
    """The engine is stuck or stopping, so it accepts no requests."""

    code = "engine_unavailable"
    http_status = 503
    retryable = True


# -- The end of a session ---------------------------------------------------------------------------------------------


class SlowClient(RealtimeTTSError):
    """The client has stopped reading, or sends its request too slowly."""

    code = "slow_client"
    close_code = 1008
    http_status = 408


class SessionExpired(RealtimeTTSError):
    """The session has reached its idle limit or its maximum duration, both stated in `session.created`."""

    code = "session_expired"
    close_code = 1001
    http_status = 503


class ServerStopping(RealtimeTTSError):
    code = "server_stopping"
    close_code = 1012
    http_status = 503
    retryable = True


# -- For the operator, never for a client -----------------------------------------------------------------------------


class OperatorError(RealtimeTTSError):
    """The server cannot start.  The message, printed on the command line, says what to do."""

    code = "cannot_start"


class ModelNotUsable(OperatorError):
    """Weights, voices or a package are missing, modified or of the wrong shape.  The message says which."""

    code = "model_not_usable"


class CannotListen(OperatorError):
    """The server's address is in use, unknown or not allowed."""

    code = "cannot_listen"


class InvalidKeys(OperatorError):
    """A key file that cannot be parsed.  The message names the line, never its text, which may contain a key."""

    code = "invalid_keys"


class UnusableCertificate(OperatorError):
    """The certificate or its private key cannot be read, or they do not match."""

    code = "unusable_certificate"
