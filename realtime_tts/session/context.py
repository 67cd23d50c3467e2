"""Contexts: the conversation threads of one session."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from realtime_tts.engine.api import EndStream
from realtime_tts.errors import InvalidMessage, TooManyContexts
from realtime_tts.session.events import Cancelled
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.playback_position import playback_position
from realtime_tts.session.playback_queue import PlaybackQueue
from realtime_tts.session.utterance import Utterance

REMEMBERED_S = 10.0
"""An utterance is kept for this time after its estimated end of playback: the client may be behind the estimate."""
MAX_REMEMBERED_UTTERANCES = 64
MAX_REMEMBERED_CONTEXTS = 64
"""Closed contexts whose audio the client may still be playing."""
MAX_CONTEXT_ID_CHARS = 128


@dataclass(slots=True, eq=False)
class Context:
    """The text of one `context_id`, or of None.  It is open while it has text to speak or audio to send."""

    context_id: str | None
    number: int
    queue: PlaybackQueue
    writing: Utterance | None = None
    """The utterance that is open for text."""
    active_s: float = 0.0
    """When its last input was received."""
    buffered_s: float | None = None
    """When text was last received that still waits for the end of its sentence; None if none waits."""
    utterances: list[Utterance] = field(default_factory=list)
    """Those that may not have been played to their end, in order."""
    forgotten_s: float = 0.0
    """Seconds of audio, since the beginning or the last cancel, of utterances that are no longer kept."""
    client_lag_s: float = 0.0
    """By how much the client's last report is behind the estimated playback position."""

    @property
    def is_open(self) -> bool:
        return self.writing is not None or any(not each.done_sent for each in self.utterances)

    def forget_played(self, now_s: float) -> None:
        """Drops utterances whose playback ended long ago."""
        while self.utterances and self.utterances[0].done_sent:
            end_s = max((end for each in self.utterances[0].begun for _, end in each.played_intervals), default=now_s)
            if end_s + REMEMBERED_S > now_s and len(self.utterances) < MAX_REMEMBERED_UTTERANCES:
                return
            self.forgotten_s += self.utterances.pop(0).audio_s

    def sent_s(self) -> float:
        return sum(each.audio_s for each in self.utterances)

    def estimated_s(self, now_s: float) -> float:
        """Seconds that a listener who plays audio on arrival has played."""
        return sum(each.played_s(now_s) for each in self.utterances)

    def is_audible(self, now_s: float) -> bool:
        """Whether the context is open, or its audio is still being played."""
        return self.is_open or self.estimated_s(now_s) < self.sent_s()

    def report(self, played_s: float, now_s: float) -> None:
        """The client has played `played_s` since the context's beginning or its last cancel."""
        self.client_lag_s = max(0.0, self.estimated_s(now_s) - (played_s - self.forgotten_s))

    def cancelled(self, played_s: float | None, now_s: float) -> Cancelled:
        """The report of a cancel now.  `played_s` as in `report`; None if the client does not report it."""
        if played_s is None:
            played, source = self.estimated_s(now_s) - self.client_lag_s, "estimated"
        else:
            played, source = played_s - self.forgotten_s, "reported"
        sent_s = self.sent_s()
        played = min(max(played, 0.0), sent_s)
        position = playback_position(self.utterances, played)
        return Cancelled(
            context_id=self.context_id,
            utterance_index=position.utterance_index,
            sentence_index=position.sentence_index,
            text_spoken=position.text_spoken,
            text_remaining=position.text_remaining,
            audio_sent_s=self.forgotten_s + sent_s,
            audio_played_s=self.forgotten_s + played,
            source=source,
            requested_at_s=now_s,
        )

    def reset(self) -> list[Utterance]:
        """Forgets everything; returns the utterances that were not completely sent."""
        unsent = [each for each in self.utterances if not each.done_sent]
        self.utterances = []
        self.writing = None
        self.buffered_s = None
        self.forgotten_s = self.client_lag_s = 0.0
        return unsent

    def due_s(self, context_idle_s: float) -> float:
        """When its buffered text is to be submitted, or its utterance ends because no input was received."""
        if self.writing is None:
            return float("inf")
        due_s = float("inf")
        delay_s = self.writing.settings.max_buffer_delay_s
        if self.buffered_s is not None and delay_s:
            due_s = self.buffered_s + delay_s
        if self.context_id is not None:
            due_s = min(due_s, self.active_s + context_idle_s)
        return due_s


class Contexts:
    """The contexts of one session, and their playback queues."""

    __slots__ = ("_contexts", "_count", "_limits", "_session_id", "queues", "shared")

    def __init__(self, session_id: str, limits: SessionLimits, now_s: float) -> None:
        self._session_id = session_id
        self._limits = limits
        self._contexts: dict[str | None, Context] = {}
        self.shared = PlaybackQueue(session_id, limits.sentences_ahead, now_s)
        self.queues: dict[str, PlaybackQueue] = {session_id: self.shared}
        self._count = 0

    def __iter__(self) -> Iterator[Context]:
        """A snapshot: contexts may be opened and dropped meanwhile."""
        return iter(list(self._contexts.values()))

    def get(self, context_id: str | None) -> Context | None:
        return self._contexts.get(context_id)

    def find_or_make(self, context_id: str | None, now_s: float) -> Context:
        """Raises `InvalidMessage` or `TooManyContexts`.  A new context counts once it is opened by `open`."""
        if context_id is not None and not 1 <= len(context_id) <= MAX_CONTEXT_ID_CHARS:
            raise InvalidMessage(f"must have 1 to {MAX_CONTEXT_ID_CHARS} characters", param="context_id")
        context = self._contexts.get(context_id)
        if (context is None or not context.is_open) and self.open_count >= self._limits.max_contexts:
            raise TooManyContexts(f"{self._limits.max_contexts} contexts are open; finish or cancel one first")
        if context is None:
            context = self.unopened(context_id)
        context.active_s = now_s
        return context

    def unopened(self, context_id: str | None) -> Context:
        return Context(context_id, 0 if context_id is None else self._free_number(), self.shared)

    def _free_number(self) -> int:
        used = {context.number for context in self._contexts.values()}
        while True:
            self._count = self._count % 0xFFFF + 1
            if self._count not in used:
                return self._count

    @property
    def open_count(self) -> int:
        return sum(context.is_open for context in self._contexts.values())

    def has_several_open(self) -> bool:
        return self.open_count > 1

    @property
    def has_work(self) -> bool:
        """Whether an utterance is open for text, or has more to pass on."""
        return any(context.writing is not None for context in self._contexts.values()) or any(
            queue.utterances for queue in self.queues.values()
        )

    @property
    def pending_chars(self) -> int:
        """Text that was received and is not yet submitted."""
        writing = (context.writing for context in self._contexts.values())
        return sum(queue.waiting_chars for queue in self.queues.values()) + sum(
            utterance.pending_chars for utterance in writing if utterance is not None
        )

    def open(self, context: Context, *, own_queue: bool, now_s: float) -> Iterator[EndStream]:
        """Opens or reopens a context with its own queue or the shared one; drops contexts that have ended."""
        context.queue = self.shared
        if own_queue and context.context_id is not None:
            stream_id = f"{self._session_id}/{context.number}"
            queue = self.queues.get(stream_id)
            context.queue = queue or PlaybackQueue(stream_id, self._limits.sentences_ahead, now_s)
            self.queues[stream_id] = context.queue
        over = [each for each in self._contexts.values() if not each.is_open and each.context_id is not None]
        for position, each in enumerate(over):
            each.forget_played(now_s)
            if each is not context and (not each.utterances or position < len(over) - MAX_REMEMBERED_CONTEXTS):
                del self._contexts[each.context_id]
                if each.queue is not self.shared:
                    del self.queues[each.queue.stream_id]
                    yield EndStream(each.queue.stream_id)
        self._contexts[context.context_id] = context

    def clear(self) -> None:
        for queue in self.queues.values():
            queue.clear()
        self._contexts.clear()
