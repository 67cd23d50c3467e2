"""Logging: lines for people or for machines, with the session id, without secrets and without users' text."""

import asyncio
import contextlib
import copy
import logging
import sys
import traceback
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from realtime_tts.errors import OperatorError, RealtimeTTSError

if TYPE_CHECKING:  # the command line answers `--help` without loading it
    from structlog.typing import EventDict, Processor

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]

SECRET_FIELDS = frozenset(
    {"key", "keys", "api_key", "token", "tokens", "authorization", "password", "secret", "cookie"}
)
"""Fields that are never shown."""
TEXT_FIELDS = frozenset(
    {"text", "input", "sentence", "sentence_text", "text_spoken", "text_remaining", "ref_text", "ref_audio"}
    | {"instructions", "pronunciations", "message_text", "data", "body"}
)
"""Fields with users' text, shown only if the operator sets `log_text`."""
WITHHELD = "(withheld)"
TRUSTED = frozenset({"realtime_tts", "asyncio", "opentelemetry"})
"""Loggers whose messages contain no users' text and no headers.  Those of other packages may: aiohttp's quote both."""
PLAIN = (str, bool, int, float)
MAX_CHAIN = 10
"""Limit of the exceptions in one traceback that are shown."""

_session_id: ContextVar[str | None] = ContextVar("session_id", default=None)
# Characters that a terminal or a line-based reader interprets.
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0))} | {
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def bind_session(session_id: str) -> None:
    """Adds `session_id` to every further line of this task and of the tasks that it starts."""
    _session_id.set(session_id)


def configure(
    *, level: str = "info", json: bool = False, log_text: bool = False, stream: TextIO | None = None
) -> logging.Handler:
    """Configures all logging of this process, through the standard library's root logger."""
    import structlog

    stream = stream or sys.stderr
    before: list[Processor] = [
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _add_session,
        _Privacy(log_text),
    ]
    after: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if json:
        after += [structlog.processors.EventRenamer("message"), structlog.processors.JSONRenderer()]
    else:
        after += [_one_line, structlog.dev.ConsoleRenderer(colors=stream.isatty(), sort_keys=False)]
    handler = PrivateHandler(stream, log_text)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=before, processors=after))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("realtime_tts").setLevel(level.upper())
    return handler


def watch_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Replaces asyncio's reports, whose messages contain the texts of exceptions."""
    loop.set_exception_handler(_report_loop_error)


def _report_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    logging.getLogger("asyncio").error(context["message"], exc_info=context.get("exception"))


# -- Privacy -----------------------------------------------------------------------------------------------------------


class PrivateHandler(logging.StreamHandler[TextIO]):
    """Removes private text from messages and from their arguments."""

    def __init__(self, stream: TextIO, log_text: bool) -> None:
        super().__init__(stream)
        self._log_text = log_text

    def emit(self, record: logging.LogRecord) -> None:
        if not self._log_text:
            record = copy.copy(record)
            if record.name.split(".")[0] not in TRUSTED:
                record.msg, record.args = WITHHELD, ()
            elif isinstance(record.args, tuple):
                record.args = tuple(kind_of(each) if isinstance(each, BaseException) else each for each in record.args)
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Reports a line that failed; the standard library would print its arguments."""
        error = sys.exc_info()[1]
        with contextlib.suppress(OSError, ValueError):  # the stream itself may be closed
            place = f"{record.pathname}, line {record.lineno}"
            self.stream.write(f"a line of the log could not be written ({type(error).__name__}): {place}\n")


class _Privacy:
    """Withholds fields that contain secrets or text, and the messages of exceptions, which may quote text."""

    def __init__(self, log_text: bool) -> None:
        self._log_text = log_text

    def __call__(self, _logger: object, _method: str, event: "EventDict") -> "EventDict":
        private = SECRET_FIELDS if self._log_text else SECRET_FIELDS | TEXT_FIELDS
        for name, value in event.items():
            if name.lower() in private:
                event[name] = WITHHELD
            elif not (name.startswith("_") or value is None or isinstance(value, PLAIN) or name == "exc_info"):
                event[name] = f"({type(value).__name__})"  # its repr may contain text
        exc_info: ExcInfo | None = event.pop("exc_info", None)
        if exc_info is not None and exc_info[0] is not None:
            event["exception"] = traceback_text(exc_info[1], with_text=self._log_text)
        return event


def kind_of(error: BaseException) -> str:
    """The class and code of an exception, without its message.  An `OperatorError` is shown in full."""
    if isinstance(error, OperatorError):
        return str(error)
    return f"{type(error).__name__} ({error.code})" if isinstance(error, RealtimeTTSError) else type(error).__name__


def traceback_text(error: BaseException, *, with_text: bool) -> str:
    """A traceback with its causes, the deepest first.  Without text it has the lines of code, and no messages."""
    if with_text:
        return "".join(traceback.format_exception(error)).rstrip()
    parts: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(parts) < MAX_CHAIN:
        frames = "".join(traceback.format_tb(seen.__traceback__))
        inner = f" of {', '.join(map(kind_of, seen.exceptions))}" if isinstance(seen, BaseExceptionGroup) else ""
        parts.append(f"Traceback (most recent call last):\n{frames}{kind_of(seen)}{inner} {WITHHELD}")
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return "\n\nwhich led to:\n\n".join(reversed(parts))


# -- Form --------------------------------------------------------------------------------------------------------------


def _add_session(_logger: object, _method: str, event: "EventDict") -> "EventDict":
    if (session_id := _session_id.get()) is not None:
        event.setdefault("session_id", session_id)
    return event


def _one_line(_logger: object, _method: str, event: "EventDict") -> "EventDict":
    """Escapes control characters: client input must not forge another line or control a terminal."""
    for name, value in event.items():
        if isinstance(value, str) and name != "exception":
            event[name] = value.encode("utf-8", "backslashreplace").decode().translate(_CONTROL)
    return event
