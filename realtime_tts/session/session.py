"""One client's session: inputs in, events out, sans-I/O.  It never awaits, locks or reads a clock.

Every method returns the commands that are to be executed at once.  Events wait, in order, for `next`; the sender
reports them with `on_audio_sent` and `on_event_sent`.  Only sent audio moves the listener's playout clock, and waiting
events can be withdrawn.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from msgspec import UNSET

from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    EndStream,
    EngineCommand,
    EngineEvent,
    ModelInfo,
    Reference,
    RequestFinished,
    TextFinished,
    TextPart,
    TextReady,
    WordsReady,
)
from realtime_tts.errors import (
    InvalidConfig,
    RealtimeTTSError,
    SessionEnding,
    SessionExpired,
    TextTooLong,
    TooMuchUnspoken,
    UnexpectedMessage,
    UnreadableConfig,
)
from realtime_tts.session.answer_turn import AnswerTurn
from realtime_tts.session.config_gate import ConfigGate
from realtime_tts.session.context import Context, Contexts
from realtime_tts.session.events import (
    AudioChunk,
    AudioEnd,
    Closed,
    ConfigApplied,
    ConfigRejected,
    Failed,
    SentenceDone,
    SessionEvent,
    SessionOpened,
    Warned,
)
from realtime_tts.session.inputs import (
    AnswerInput,
    Audio,
    Cancel,
    Close,
    Commit,
    Configure,
    ContextInput,
    Conversation,
    Done,
    Flush,
    Image,
    KeepAlive,
    PlaybackReport,
    SessionInput,
    Text,
)
from realtime_tts.session.lifetime import Lifetime
from realtime_tts.session.limits import Quota, SessionLimits
from realtime_tts.session.outbox import DoneOf, EndOf, Outbox
from realtime_tts.session.protocol import Protocol, State
from realtime_tts.session.request_builder import RequestBuilder
from realtime_tts.session.sentence import SentenceState
from realtime_tts.session.settings import VOICE_SCHEME, SessionSettings, apply_config, uploaded_voice
from realtime_tts.session.utterance import Utterance
from realtime_tts.text.cleaner import TextCleaner
from realtime_tts.text.splitter import SentenceSplitter

_AUDIO = (AudioChunk, AudioEnd)
"""As a tuple: an expression with `|` makes a type each time."""

MAX_HELD_INPUTS = 1000
"""Inputs that may wait while a `ref_audio` is fetched."""
MAX_PENDING_COMMITS = 10_000
"""Commits of one utterance whose audio is not complete."""


@dataclass(frozen=True, slots=True)
class FetchReference:
    """`ref_audio` of a `Configure`: to be fetched, decoded, and given to `Session.on_reference`."""

    ref_audio: str


Command: TypeAlias = EngineCommand | FetchReference


class Session:
    __slots__ = (
        *("_builder", "_contexts", "_draining", "_expires_at_unix_s", "_fetching", "_gate", "_held", "_info"),
        *("_lifetime", "_limits", "_models", "_outbox", "_protocol", "_quota", "_regular_close", "_settings"),
        *("_utterance_count", "model", "session_id"),
    )

    def __init__(
        self,
        session_id: str,
        models: Mapping[str, ModelInfo],
        limits: SessionLimits,
        *,
        now_s: float,
        expires_at_unix_s: float,
        quota: Quota | None = None,
    ) -> None:
        """The client may choose one of `models`; the first is the default.

        `now_s` and all later times are of one `Clock`; `expires_at_unix_s` is only reported to the client.
        """
        self.session_id = session_id
        self._models = models
        self._limits = limits
        self._expires_at_unix_s = expires_at_unix_s
        self._quota = quota
        self._lifetime = Lifetime(limits, now_s)
        self._regular_close = (1000, "done")
        self._draining = False
        self._gate = ConfigGate(limits.config_s)
        self._fetching: Configure | None = None
        self._held: list[SessionInput] = []
        self._outbox = Outbox()
        self._contexts = Contexts(session_id, limits, now_s)
        self._utterance_count = 0
        self._use(next(iter(models)))
        info = self._info
        self._protocol = Protocol(limits, has_default_voice=info.default_voice is not None or not info.voices)

    def _use(self, model: str) -> None:
        """Only before the session is opened: the client then learns the model's voices and rate."""
        self.model = model
        """The name of the model that all commands are for."""
        self._info = self._models[model]
        self._settings = SessionSettings.default(self._info)
        self._builder = RequestBuilder(self.session_id, self._info, self._limits, self._quota)

    @property
    def closed(self) -> bool:
        return self._protocol.state is State.CLOSED

    @property
    def deadline_s(self) -> float:
        """When `on_time` is to be called, at the latest."""
        idle_s = self._limits.context_idle_s
        ends_s = (self._lifetime.deadline_s, self._gate.deadline_s)
        return min([*ends_s, *(context.due_s(idle_s) for context in self._contexts)])

    @property
    def unsent_s(self) -> float:
        """Seconds of audio that wait to be sent."""
        return self._outbox.unsent_samples / self._info.sample_rate_hz

    @property
    def playout_end_s(self) -> float | None:
        """When the listener has played all that was sent; None before the first audio."""
        ends_s = (queue.playout_end_s for queue in self._contexts.queues.values())
        return max((end_s for end_s in ends_s if end_s is not None), default=None)

    @property
    def waiting(self) -> int:
        """Events that wait to be sent."""
        return len(self._outbox)

    @property
    def waiting_bytes(self) -> int:
        """Memory of these events, estimated; without audio, which the engine limits."""
        return self._outbox.waiting_bytes

    def drop_unsent(self) -> None:
        """Discards the waiting events, so that a client that does not read receives the error at once."""
        self._outbox.clear()

    def next_audio(self) -> AudioChunk | None:
        """The next event, if it is audio."""
        return self._outbox.next_audio()

    def next(self) -> SessionEvent | None:
        """The next event to send; from here on it counts as sent."""
        return self._outbox.next()

    # -- Inputs --------------------------------------------------------------------------------------------------------

    def receive(self, item: SessionInput, now_s: float) -> list[Command]:
        """One input.  Never raises: a rejected one becomes `Failed`, and perhaps the end of the session."""
        if self.closed:
            return []
        self._lifetime.touch(now_s)
        if isinstance(item, AnswerInput) and not self._info.answers:
            words = f"{self.model} answers no conversations, so it accepts neither audio nor images nor binary frames"
            return self.fail(self._protocol.rejected(UnexpectedMessage(words)))
        try:
            self._protocol.receive(item)
        except RealtimeTTSError as error:
            return self.fail(error)
        return self._apply_or_hold(item, now_s)

    def reject(self, error: RealtimeTTSError, now_s: float) -> list[Command]:
        """The client has sent data that is not an input."""
        if self.closed:
            return []
        self._lifetime.touch(now_s)
        is_config = isinstance(error, UnreadableConfig | InvalidConfig)
        error = self._protocol.rejected(error)
        return self._reject_config(error, now_s) if is_config else self.fail(error)

    def _apply_or_hold(self, item: SessionInput, now_s: float) -> list[Command]:
        commands: list[Command] = []
        try:
            if self._fetching is not None and not isinstance(item, Cancel | PlaybackReport | KeepAlive):
                self._hold(item)
            else:
                commands.extend(self._apply(item, now_s))
        except RealtimeTTSError as error:
            if isinstance(item, Configure):
                commands.extend(self._reject_config(error, now_s))
            else:
                commands.extend(self.fail(error, item.context_id if isinstance(item, ContextInput) else None))
        return commands

    def _apply(self, item: SessionInput, now_s: float) -> Iterator[Command]:
        match item:
            case Text(text=text, context_id=context_id):
                yield from self._on_text(self._contexts.find_or_make(context_id, now_s), text, now_s)
            case Audio() | Image() | Conversation():
                yield from self._on_answer_input(item, now_s)
            case Configure():
                yield from self._on_configure(item)
            case Flush(context_id=context_id):
                self._open()
                yield from self._on_flush(context_id, now_s)
            case Commit(commit_id=commit_id, context_id=context_id):
                yield from self._on_commit(self._contexts.find_or_make(context_id, now_s), commit_id, now_s)
            case Done(context_id=context_id):
                yield from self._on_done(self._contexts.find_or_make(context_id, now_s), now_s)
            case Cancel(context_id=context_id, playback_offset_s=played_s):
                self._open()
                self._held = [each for each in self._held if not _is_text_of(each, context_id)]
                yield from self._on_cancel(context_id, played_s, now_s)
            case PlaybackReport():
                yield from self._on_report(item, now_s)
            case Close():
                for context in self._contexts:  # nothing more follows: open text counts as done
                    if context.writing is not None:
                        yield from self._finish(context, now_s)
        yield from self._progress()

    def _on_configure(self, config: Configure) -> Iterator[Command]:
        ignored: tuple[str, ...] = ()
        if isinstance(config.model, str) and config.model != self.model:
            if config.model not in self._models:
                ignored = ("model",)
            elif self._lifetime.opened:
                words = f"this session uses {self.model}; choose {config.model} in the first config of another session"
                raise InvalidConfig(words, param="model")
            else:
                self._use(config.model)
        config = replace(config, model=UNSET, unknown=(*config.unknown, *ignored))
        name = uploaded_voice(config, self._info)
        recording = config.ref_audio or (name and f"{VOICE_SCHEME}{name}")
        if isinstance(recording, str) and "ref_audio" in self._info.fields:
            self._fetching = config
            yield FetchReference(recording)
        else:
            self._change_settings(config, None)

    def _change_settings(self, config: Configure, reference: Reference | None) -> None:
        self._settings, ignored = apply_config(self._settings, config, self._info, reference)
        self._gate.accept()
        self._open()
        self._outbox.add(self._config_applied(ignored))

    def _config_applied(self, ignored: tuple[str, ...]) -> ConfigApplied:
        info = self._info
        return ConfigApplied(self._settings, self.model, info.task_type, ignored, info.answers, info.input_rate_hz)

    def _reject_config(self, error: RealtimeTTSError, now_s: float) -> list[Command]:
        """Nothing of a config was applied."""
        is_new = not self._lifetime.opened
        if is_new:
            self._use(next(iter(self._models)))  # the config may have named another model
        self._gate.reject(error, now_s, ends_session=is_new)
        self._outbox.add(ConfigRejected(error, refuses_text=self._gate.is_closed))
        return [] if error.close_code is None else list(self._close(error.close_code, error.code))

    def on_reference(self, fetched: Reference | RealtimeTTSError, now_s: float) -> list[Command]:
        """The result of a `FetchReference`: the inputs that were held meanwhile are applied now."""
        config, self._fetching = self._fetching, None
        held, self._held = self._held, []
        if config is None or self.closed:
            return []
        commands: list[Command] = []
        try:
            if isinstance(fetched, RealtimeTTSError):
                raise fetched
            self._change_settings(config, fetched)
        except RealtimeTTSError as error:
            commands.extend(self._reject_config(error, now_s))
        for item in held:
            commands.extend(self._apply_or_hold(item, now_s))  # after another `ref_audio` they are held again
        commands += self._progress()
        return commands

    def _hold(self, item: SessionInput) -> None:
        if len(self._held) >= MAX_HELD_INPUTS:
            raise InvalidConfig(f"ref_audio is still being fetched, and {MAX_HELD_INPUTS} messages wait for it")
        self._held.append(item)

    def _open(self) -> None:
        if self._lifetime.opened:
            return
        self._lifetime.opened = True
        info = self._info
        self._outbox.add(
            SessionOpened(
                session_id=self.session_id,
                model=self.model,
                voices=info.voice_names,
                sample_rate_hz=info.sample_rate_hz,
                limits=self._limits,
                expires_at_unix_s=self._expires_at_unix_s,
            )
        )

    # -- Text ----------------------------------------------------------------------------------------------------------

    def _on_text(self, context: Context, text: str, now_s: float) -> Iterator[Command]:
        """Applies a piece of text, or raises and applies none of it."""
        self._check_room(context, text)
        if context.writing is None:
            self._check_may_begin()
        if self._quota is not None:
            self._quota.charge(len(text))
        utterance = yield from self._open_utterance(context, now_s)
        context.buffered_s = now_s
        yield from self._queue_warnings(utterance.push(text, now_s))

    def _on_answer_input(self, item: AnswerInput, now_s: float) -> Iterator[Command]:
        context = self._contexts.find_or_make(item.context_id, now_s)
        if context.writing is None:
            self._check_may_begin()
        if isinstance(item, Conversation) and self._quota is not None:
            self._quota.charge(_characters(item))
        turn = yield from self._open_utterance(context, now_s)
        assert isinstance(turn, AnswerTurn), "a model that answers has turns"
        match item:
            case Audio(pcm=pcm):
                turn.push_audio(pcm)
            case Image(image=image):
                turn.push_image(image)
            case Conversation(turns=turns, sampling=sampling):
                context.writing = None
                yield from self._queue_warnings(turn.answer(turns, sampling, now_s))

    @property
    def has_backlog(self) -> bool:
        """Whether `process_backlog` has something to do: a long text is split in blocks."""
        return not self.closed and any(each.writing is not None and each.writing.unread for each in self._contexts)

    def process_backlog(self, now_s: float) -> list[Command]:
        """Splits the next block of a long text: all of it at once would delay all other sessions."""
        commands: list[Command] = []
        writing = (context.writing for context in self._contexts)
        if utterance := next((each for each in writing if each is not None and each.unread), None):
            commands.extend(self._queue_warnings(utterance.read_block(now_s)))
        return [*commands, *self._progress()]

    def _check_room(self, context: Context, text: str) -> None:
        limits, pending = self._limits, self._contexts.pending_chars
        if pending + len(text) > limits.max_pending_chars:
            raise TooMuchUnspoken(
                f"{len(text)} more characters would exceed the limit of {limits.max_pending_chars} not yet spoken"
                f" ({pending} now); this message was not applied"
            )
        if context.writing is not None and context.writing.characters + len(text) > limits.max_utterance_chars:
            raise TextTooLong(
                f"an utterance may have {limits.max_utterance_chars} characters; send `input.done` and begin another"
            )

    def _check_may_begin(self) -> None:
        if self._draining:
            raise SessionEnding("this session ends soon, as `session.expiring` announced: open a new connection")
        self._gate.check()
        if self._settings.has_voice:
            return
        if self._info.voices:
            raise InvalidConfig("there is no default voice, so `session.config` must name one", param="voice")
        if "ref_audio" in self._info.fields:
            raise InvalidConfig("the model has no voices, so `session.config` must give a recording", param="ref_audio")

    def _on_flush(self, context_id: str | None, now_s: float) -> Iterator[Command]:
        context = self._contexts.get(context_id)
        if context is not None and context.writing is not None:
            context.active_s = now_s
            context.buffered_s = None
            yield from self._queue_warnings(context.writing.flush(now_s))

    def _on_commit(self, context: Context, commit_id: str | None, now_s: float) -> Iterator[Command]:
        """Also of no text at all: every commit is acknowledged."""
        if context.writing is None:
            self._check_may_begin()
        elif len(context.writing.segments) >= MAX_PENDING_COMMITS:
            raise TooMuchUnspoken(f"{MAX_PENDING_COMMITS} commits wait for their audio; this message was not applied")
        utterance = yield from self._open_utterance(context, now_s)
        context.buffered_s = None
        yield from self._queue_warnings(utterance.flush(now_s))
        self._outbox.add(utterance.commit(commit_id))

    def _on_done(self, context: Context, now_s: float) -> Iterator[Command]:
        if context.writing is None:
            self._check_may_begin()
        yield from self._open_utterance(context, now_s)
        yield from self._finish(context, now_s)

    def _finish(self, context: Context, now_s: float) -> Iterator[Command]:
        utterance = context.writing
        assert utterance is not None, "only an open utterance can be finished"
        context.writing = context.buffered_s = None
        if isinstance(utterance, AnswerTurn):
            self._outbox.add(utterance.committed_event())
        yield from self._queue_warnings(utterance.finish(now_s))

    def _open_utterance(self, context: Context, now_s: float) -> Generator[Command, None, Utterance]:
        """The utterance of `context` that is open for text, which begins if there is none."""
        self._open()
        if context.writing is None:
            yield from self._begin_utterance(context, now_s)
        assert context.writing is not None, "it has just begun"
        return context.writing

    def _begin_utterance(self, context: Context, now_s: float) -> Iterator[Command]:
        settings = self._settings
        if not context.is_open:
            if settings.on_new_context == "interrupt":
                for other in self._contexts:
                    if other is not context and other.is_audible(now_s):
                        yield from self._on_cancel(other.context_id, None, now_s)
            yield from self._contexts.open(context, own_queue=settings.frame_header, now_s=now_s)
        context.forget_played(now_s)
        kind = AnswerTurn if self._info.answers else Utterance
        context.writing = kind(
            index=self._utterance_count,
            context_id=context.context_id,
            context_number=context.number,
            settings=settings,
            cleaner=TextCleaner(settings.text_filters),
            splitter=SentenceSplitter(
                language=settings.text_language(self._info),
                max_chars=self._limits.max_sentence_chars,
                granularity=settings.split_granularity,
            ),
            queue=context.queue,
            builder=self._builder,
            began_s=now_s,
        )
        self._utterance_count += 1
        context.utterances.append(context.writing)
        context.queue.utterances.append(context.writing)

    def _queue_warnings(self, items: Iterable[EngineCommand | Warned]) -> Iterator[EngineCommand]:
        for item in items:
            if isinstance(item, Warned):
                self._outbox.add(item)
            else:
                yield item

    # -- Barge-in and playback reports ---------------------------------------------------------------------------------

    def _on_cancel(self, context_id: str | None, played_s: float | None, now_s: float) -> Iterator[Command]:
        """Ends a context's speech: at the engine, waiting to be sent, and in the listener's buffer."""
        context = self._contexts.get(context_id) or self._contexts.unopened(context_id)
        cancelled = context.cancelled(played_s, now_s)
        unplayed_s = context.sent_s() - context.estimated_s(now_s)
        ended = context.reset()
        commands = list(context.queue.cancel(ended, unplayed_s, now_s))
        self._outbox.withdraw(ended)
        begun = (state for utterance in ended for state in utterance.begun)
        self._outbox.extend(DoneOf(state) for state in begun if state.start_sent and not state.done_sent)
        self._outbox.add(cancelled)
        self._outbox.extend(EndOf(utterance) for utterance in ended)
        yield from commands

    def _on_report(self, report: PlaybackReport, now_s: float) -> Iterator[Command]:
        context = self._contexts.get(report.context_id)
        if context is None:
            return
        context.report(report.played_s, now_s)
        if report.buffered_s is not None:
            yield from context.queue.on_buffer_report(report.buffered_s, now_s)

    # -- From the engine -----------------------------------------------------------------------------------------------

    def on_engine(self, event: EngineEvent, now_s: float) -> list[Command]:
        """One event of a request of this session."""
        for queue in self._contexts.queues.values():
            if (state := queue.submitted(event.request_id)) is not None:
                break
        else:
            return []  # of a cancelled request, or the session has ended
        if isinstance(event, AudioReady):
            if state.started:  # it is next in playback order, and nothing is held
                self._lifetime.touch(now_s)
                state.pass_on_audio(event.samples, self._outbox)
                return []
            state.held.append(event.samples)
        elif isinstance(event, WordsReady):
            state.words.extend(event.words)
            if state.wants_words:
                state.held.append(event.words)
        elif isinstance(event, TextReady | TextFinished):
            state.on_text(event)
        elif isinstance(event, RequestFinished):
            queue.finish(state, event)
            error = event.error
            if error is not None and error.close_code is not None and queue.is_first(state) and self._is_alone(state):
                return self.fail(error)
        self._lifetime.touch(now_s)
        commands = self._progress()
        if state.finished is not None and not state.is_spoken:
            commands.extend(queue.submit_next())  # nothing of it is sent, which would submit the next one
        return commands

    def _is_alone(self, state: SentenceState) -> bool:
        """Whether no other context has anything to speak."""
        utterances = (each for queue in self._contexts.queues.values() for each in queue.utterances)
        return all(each.context_id == state.utterance.context_id for each in utterances)

    def _progress(self) -> list[Command]:
        """Moves what can be sent to the outbox, and closes a session that is ending and has nothing left."""
        for queue in self._contexts.queues.values():
            queue.pass_on(self._outbox, self._contexts.has_several_open)
        state = self._protocol.state
        ending = state is State.CLOSING or state is State.DRAINING
        if ending and not self._contexts.has_work and self._fetching is None:
            return list(self._close(*self._regular_close))
        return []

    # -- Sent ----------------------------------------------------------------------------------------------------------

    def wants(self, event: SessionEvent) -> bool:
        """Whether the remaining frames of an event are to be sent: not after a cancel."""
        if not isinstance(event, _AUDIO):
            return True
        state = self._outbox.sentence_of(event)
        return state is not None and not state.utterance.cancelled

    def on_audio_sent(self, event: SessionEvent, audio_s: float, now_s: float) -> AudioSent | None:
        """A frame of `event`, which holds `audio_s` seconds of audio, went to the socket at `now_s`."""
        assert isinstance(event, _AUDIO), f"{type(event).__name__} has no audio"
        self._lifetime.touch(now_s)
        state = self._outbox.sentence_of(event)
        return None if state is None else state.utterance.queue.on_audio_sent(state, audio_s, now_s)

    def on_event_sent(self, event: SessionEvent, now_s: float) -> list[Command]:
        """All frames of `event` went to the socket."""
        if isinstance(event, SentenceDone) and (state := self._outbox.sentence_of(event)) is not None:
            return list(state.utterance.queue.on_sentence_sent(state, now_s))
        return []

    # -- Time and ends -------------------------------------------------------------------------------------------------

    def on_time(self, now_s: float) -> list[Command]:
        """Submits text that has waited its maximum delay, and applies the time limits; call it at `deadline_s`."""
        if self.closed:
            return []
        if self._lifetime.is_over(now_s):
            words = "the session has reached its idle limit or its maximum duration, stated in `session.created`"
            return self.fail(SessionExpired(words))
        if (timeout := self._gate.timeout(now_s)) is not None:
            return self.fail(timeout)
        commands: list[Command] = []
        for context in self._contexts:
            commands.extend(self._on_context_time(context, now_s))
        warning = self._lifetime.warning(now_s)
        if warning is not None and warning.reason == "ttl":
            commands.extend(self.expire("ttl", warning.deadline_s))
        elif warning is not None:
            self._outbox.add(warning)
        commands += self._progress()
        return commands

    def _on_context_time(self, context: Context, now_s: float) -> Iterator[Command]:
        if context.writing is None or now_s < context.due_s(self._limits.context_idle_s):
            return
        if context.context_id is not None and now_s >= context.active_s + self._limits.context_idle_s:
            yield from self._finish(context, now_s)
        else:
            context.buffered_s = None
            yield from self._queue_warnings(context.writing.flush_finished(now_s))

    def expire(self, reason: str, deadline_s: float) -> list[Command]:
        """Ends the session: warns the client, finishes the open utterances, then closes.

        `reason` is drain or ttl; after `deadline_s` the caller ends the session in any case.
        """
        if self.closed or (warning := self._lifetime.expire(reason, deadline_s)) is None:
            return []
        self._outbox.add(warning)
        if self._protocol.state is not State.CLOSING:
            self._regular_close = (1012, "server_stopping") if reason == "drain" else (1001, "session_expired")
        self._protocol.drain()
        self._draining = True
        return self._progress()

    def fail(self, error: RealtimeTTSError, context_id: str | None = None) -> list[Command]:
        """Reports `error` to the client; an error with a close code ends the session."""
        self._outbox.add(Failed(error, context_id))
        return [] if error.close_code is None else list(self._close(error.close_code, error.code))

    def abandon(self) -> list[Command]:
        """The client has disconnected: ends everything at the engine."""
        self._protocol.close()
        self._held.clear()
        stream_ids = list(self._contexts.queues)
        self._contexts.clear()
        return [EndStream(stream_id) for stream_id in stream_ids]

    def _close(self, code: int, reason: str) -> Iterator[Command]:
        yield from self.abandon()
        self._outbox.add(Closed(code, reason))


def _is_text_of(item: SessionInput, context_id: str | None) -> bool:
    return isinstance(item, Text | AnswerInput | Flush | Commit | Done) and item.context_id == context_id


def _characters(conversation: Conversation) -> int:
    parts = (part for turn in conversation.turns for part in turn.parts)
    return sum(len(part.text) for part in parts if isinstance(part, TextPart))
