"""Text in, ordered audio out: one client's session, sans I/O.  It never awaits, locks or reads a clock.

Every method returns what the engine is to be told at once.  What is to be sent waits, in order, for `next`: whoever
carries it out calls `on_audio_sent` after each packet and `on_sentence_sent` after each sentence.  Only what was routed
to the socket moves the listener's playout clock, and what is still here can be taken back.
"""

import math
from collections.abc import Iterator

from realtime_tts.engine.api import EndStream, EngineEvent, ModelInfo, Reference, WordsReady
from realtime_tts.errors import InvalidConfig, InvalidMessage, RealtimeTTSError, SessionExpired
from realtime_tts.session.context import Context
from realtime_tts.session.dialogue import Dialogue, Outgoing, Quota
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.messages import (
    ClientMessage,
    InputCancel,
    InputDone,
    InputFlush,
    InputText,
    Limits,
    PlaybackReport,
    ServerError,
    SessionClose,
    SessionConfig,
    SessionCreated,
    SessionExpiring,
    SessionKeepalive,
    SessionUpdated,
)
from realtime_tts.session.outputs import Close, Command, FetchReference, Send
from realtime_tts.session.protocol import PROTOCOL, Protocol, State
from realtime_tts.session.settings import VOICE_SCHEME, SessionSettings, apply_config, uploaded_voice
from realtime_tts.session.utterance import SendAudio, SentenceJob

MAX_CONTEXT_ID_CHARS = 128
MAX_HELD_MESSAGES = 1000
"""That come while a `ref_audio` is fetched."""
LAST_WARNING_S = 30.0
"""`session.expiring` comes so long before the idle and the life limit, where these are longer than twice that."""


class Session:
    def __init__(
        self,
        session_id: str,
        info: ModelInfo,
        limits: SessionLimits,
        *,
        now_s: float,
        expires_at: float,
        quota: Quota | None = None,
    ) -> None:
        """`expires_at` is Unix time and only told to the client; `now_s` and all later times are one `Clock`'s."""
        self.session_id = session_id
        self._info = info
        self._limits = limits
        self._expires_at = expires_at
        self._expires_s = now_s + limits.session_s
        self._active_s = now_s
        self._warned: set[str] = set()
        self._protocol = Protocol(limits, has_default_voice=info.default_voice is not None or not info.voices)
        self._settings = SessionSettings.default(info)
        self._announced = False
        self._goodbye = (1000, "done")
        self._fetching: SessionConfig | None = None
        self._held: list[ClientMessage] = []
        self._dialogue = Dialogue(session_id, info, limits, quota, now_s)

    @property
    def closed(self) -> bool:
        return self._protocol.state is State.CLOSED

    @property
    def deadline_s(self) -> float:
        """When `on_time` is to be called, at the latest."""
        ends = [self._due_s("idle"), self._due_s("ttl"), self._dialogue.deadline_s]
        return min(ends)

    @property
    def unsent_s(self) -> float:
        """Sound that waits to be sent."""
        return self._dialogue.unsent_s

    @property
    def heard_until_s(self) -> float | None:
        """When the listener will have played all that was sent; None before the first sound."""
        return self._dialogue.heard_until_s

    def drop_unsent(self) -> None:
        """What waits will not be sent: for a client who does not read, before the error that says so."""
        self._dialogue.outgoing.clear()

    @property
    def waiting(self) -> int:
        """Messages and packets that wait to be sent."""
        return len(self._dialogue.outgoing)

    @property
    def backlogged(self) -> bool:
        """Whether `work_off` has something to do: a long message is taken in by and by."""
        return not self.closed and self._dialogue.backlogged

    def work_off(self, now_s: float) -> list[Command]:
        return [*self._dialogue.work_off(now_s), *self._advance()]

    def next(self) -> Outgoing | None:
        """Takes what is to be sent next; from here on it counts as sent."""
        return self._dialogue.next()

    # -- From the client -----------------------------------------------------------------------------------------------

    def receive(self, data: str | bytes, now_s: float) -> list[Command]:
        """One frame.  Never raises: what is wrong with it becomes an error message, and perhaps a close."""
        if self.closed:
            return []
        self._heard_of(now_s)
        try:
            message = self._protocol.receive(data)
        except RealtimeTTSError as error:
            return self.fail(error)
        return self._take(message, now_s)

    def _take(self, message: ClientMessage, now_s: float) -> list[Command]:
        commands: list[Command] = []
        try:
            if self._fetching is not None and not isinstance(message, InputCancel | PlaybackReport | SessionKeepalive):
                self._hold(message)
            else:
                commands.extend(self._on_message(message, now_s))
        except RealtimeTTSError as error:
            context_id = message.context_id if isinstance(message, ContextMessage) else None
            commands.extend(self.fail(error, context_id))
        return commands

    def _on_message(self, message: ClientMessage, now_s: float) -> Iterator[Command]:
        match message:
            case SessionConfig():
                yield from self._on_config(message)
            case InputText(text=text, context_id=context_id):
                context = self._context(context_id, now_s)
                yield from self._dialogue.on_text(context, text, self._settings, now_s, self._announce)
            case InputFlush(context_id=context_id):
                self._announce()
                yield from self._dialogue.on_flush(context_id, now_s)
            case InputDone(context_id=context_id):
                context = self._context(context_id, now_s)
                yield from self._dialogue.on_done(context, self._settings, now_s, self._announce)
            case InputCancel(context_id=context_id, playback_offset_ms=offset_ms):
                self._announce()
                self._held = [each for each in self._held if not _is_input_of(each, context_id)]
                played_s = None if offset_ms is None else _milliseconds("playback_offset_ms", offset_ms)
                yield from self._dialogue.on_cancel(context_id, played_s, now_s)
            case PlaybackReport():
                yield from self._on_report(message, now_s)
            case SessionClose():
                yield from self._dialogue.finish_writing(now_s)
        yield from self._advance()

    def _context(self, context_id: str | None, now_s: float) -> Context:
        if context_id is not None and not 1 <= len(context_id) <= MAX_CONTEXT_ID_CHARS:
            raise InvalidMessage(f"context_id: must have 1 to {MAX_CONTEXT_ID_CHARS} characters")
        return self._dialogue.context(context_id, now_s)

    def _on_report(self, message: PlaybackReport, now_s: float) -> Iterator[Command]:
        played_s = _milliseconds("played_ms", message.played_ms)
        buffered_s = None if message.buffered_ms is None else _milliseconds("buffered_ms", message.buffered_ms)
        yield from self._dialogue.on_report(message.context_id, played_s, buffered_s, now_s)

    def _on_config(self, config: SessionConfig) -> Iterator[Command]:
        name = uploaded_voice(config, self._info)
        recording = config.ref_audio or (name and f"{VOICE_SCHEME}{name}")
        if isinstance(recording, str) and "ref_audio" in self._info.fields:
            self._fetching = config
            yield FetchReference(recording)
        else:
            self._apply(config, None)

    def _apply(self, config: SessionConfig, reference: Reference | None) -> None:
        self._settings, ignored = apply_config(self._settings, config, self._info, reference)
        self._announce()
        self._send(Send(SessionUpdated(config=self._settings.in_force(self._info), ignored=ignored)))

    def on_reference(self, fetched: Reference | RealtimeTTSError, now_s: float) -> list[Command]:
        """The answer to `FetchReference`: what came in meanwhile is taken up."""
        config, self._fetching = self._fetching, None
        held, self._held = self._held, []
        if config is None or self.closed:
            return []
        commands: list[Command] = []
        try:
            if isinstance(fetched, RealtimeTTSError):
                raise fetched
            self._apply(config, fetched)
        except RealtimeTTSError as error:
            commands.extend(self.fail(error))
        for message in held:
            commands.extend(self._take(message, now_s))  # behind another `ref_audio` they wait again
        commands.extend(self._advance())
        return commands

    def _hold(self, message: ClientMessage) -> None:
        if len(self._held) >= MAX_HELD_MESSAGES:
            raise InvalidConfig(f"ref_audio is still being fetched, and {MAX_HELD_MESSAGES} messages wait for it")
        self._held.append(message)

    def _announce(self) -> None:
        if self._announced:
            return
        self._announced = True
        limits = self._limits
        self._send(
            Send(
                SessionCreated(
                    session_id=self.session_id,
                    protocol=PROTOCOL,
                    model=self._info.name,
                    voices=self._info.voice_names,
                    sample_rate=self._info.sample_rate_hz,
                    limits=Limits(
                        max_message_bytes=limits.max_message_bytes,
                        max_pending_chars=limits.max_pending_chars,
                        max_utterance_chars=limits.max_utterance_chars,
                        max_sentence_chars=limits.max_sentence_chars,
                        max_contexts=limits.max_contexts,
                        write_timeout_s=limits.write_timeout_s,
                        context_idle_s=limits.context_idle_s,
                        idle_s=limits.idle_s,
                        session_s=limits.session_s,
                    ),
                    expires_at=self._expires_at,
                )
            )
        )

    # -- From the engine -----------------------------------------------------------------------------------------------

    def on_engine(self, event: EngineEvent, now_s: float) -> list[Command]:
        """One event of a request of this session."""
        if self.closed:
            return []  # the session has ended while the engine was still at it
        fatal = self._dialogue.on_engine(event)
        if fatal is not None:
            return self.fail(fatal)
        if not isinstance(event, WordsReady):
            self._heard_of(now_s)
        return list(self._advance())

    def _advance(self) -> Iterator[Command]:
        self._dialogue.advance()
        ending = self._protocol.state in (State.CLOSING, State.DRAINING)
        if ending and not self._dialogue.writes_or_speaks and self._fetching is None:
            yield from self._close(*self._goodbye)

    # -- From the socket -----------------------------------------------------------------------------------------------

    def on_audio_sent(self, audio: SendAudio, now_s: float) -> list[Command]:
        """`audio` was routed to the socket at `now_s`."""
        self._heard_of(now_s)
        return list(self._dialogue.on_audio_sent(audio, now_s))

    def on_sentence_sent(self, job: SentenceJob, now_s: float) -> list[Command]:
        """A sentence has wholly gone out: there is room for another with the engine."""
        return list(self._dialogue.on_sentence_sent(job, now_s))

    # -- Time and ends -------------------------------------------------------------------------------------------------

    def on_time(self, now_s: float) -> list[Command]:
        """Speaks what has waited long enough, ends what has lasted long enough; to be called at `deadline_s`."""
        if self.closed:
            return []
        if now_s >= min(self._expires_s, self._active_s + self._limits.idle_s):
            return self.fail(SessionExpired("the session's idle or life limit, told in `session.created`, has passed"))
        commands: list[Command] = list(self._dialogue.on_time(now_s))
        if now_s >= self._due_s("ttl"):
            commands.extend(self.expire("ttl", self._expires_s - now_s))
        elif now_s >= self._due_s("idle"):
            self._warned.add("idle")
            left_s = self._active_s + self._limits.idle_s - now_s
            self._send(Send(SessionExpiring(reason="idle", deadline_ms=left_s * 1000)))
        commands.extend(self._advance())
        return commands

    def _due_s(self, kind: str) -> float:
        """When a limit is warned of, or, once that is done, reached."""
        length_s = self._limits.idle_s if kind == "idle" else self._limits.session_s
        end_s = self._active_s + length_s if kind == "idle" else self._expires_s
        warns = kind not in self._warned and length_s > 2 * LAST_WARNING_S and self._announced
        return end_s - LAST_WARNING_S if warns else end_s

    def _heard_of(self, now_s: float) -> None:
        self._active_s = now_s
        self._warned.discard("idle")

    def expire(self, reason: str, deadline_s: float) -> list[Command]:
        """The session is to end: tells the client, finishes the utterances that have begun, then closes.

        `reason` is drain or ttl; `deadline_s` is how long it has.  Whoever calls ends it then, done or not.
        """
        if self.closed or {"drain", "ttl"} & self._warned:
            return []
        self._warned.update(("ttl", reason))
        self._send(Send(SessionExpiring(reason=reason, deadline_ms=max(0.0, deadline_s) * 1000)))
        if self._protocol.state is not State.CLOSING:
            self._goodbye = (1012, "server_stopping") if reason == "drain" else (1001, "session_expired")
        self._protocol.drain()
        self._dialogue.drain()
        return list(self._advance())

    def fail(self, error: RealtimeTTSError, context_id: str | None = None) -> list[Command]:
        """Tells the client of `error`; where it has a close code, that is the end of the session."""
        message = ServerError(
            code=error.code,
            message=error.message,
            fatal=error.close_code is not None,
            retryable=error.retryable,
            session_id=self.session_id,
            context_id=context_id,
            retry_after_ms=None if error.retry_after_s is None else error.retry_after_s * 1000,
        )
        self._send(Send(message))
        return [] if error.close_code is None else list(self._close(error.close_code, error.code))

    def abandon(self) -> list[Command]:
        """Nobody listens any more: everything that was asked of the engine is taken back."""
        self._protocol.close()
        self._held.clear()
        return [EndStream(stream_id) for stream_id in self._dialogue.abandon()]

    def _close(self, code: int, reason: str) -> Iterator[Command]:
        yield from self.abandon()
        self._send(Close(code, reason))

    def _send(self, output: Outgoing) -> None:
        self._dialogue.outgoing.append(output)


def _milliseconds(field: str, value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise InvalidMessage(f"{field}: must be a number of milliseconds, got {str(value)[:40]}")
    return value / 1000


def _is_input_of(message: ClientMessage, context_id: str | None) -> bool:
    return isinstance(message, InputText | InputFlush | InputDone) and message.context_id == context_id


ContextMessage = InputText | InputFlush | InputDone | InputCancel | PlaybackReport
