"""The outgoing events of a session, in order.  Events that have left it count as sent and cannot be withdrawn."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from realtime_tts.session.events import (
    AudioChunk,
    AudioEnd,
    Cancelled,
    ConfigApplied,
    ResponseStarted,
    ResponseText,
    ResponseTextDone,
    SegmentDone,
    SentenceDone,
    SentenceFailed,
    SentenceStarted,
    SessionEvent,
    UtteranceDone,
    Words,
)

if TYPE_CHECKING:
    from realtime_tts.session.sentence import SentenceState
    from realtime_tts.session.utterance import Utterance


@dataclass(frozen=True, slots=True)
class StartOf:
    """Becomes a `SentenceStarted` with the text that is known when it is sent."""

    sentence: "SentenceState"


@dataclass(frozen=True, slots=True)
class DoneOf:
    """Becomes a `SentenceDone` when it is sent: its figures include all audio sent before it."""

    sentence: "SentenceState"


@dataclass(frozen=True, slots=True)
class EndOf:
    """Becomes an `UtteranceDone` when it is sent."""

    utterance: "Utterance"


Outgoing: TypeAlias = SessionEvent | StartOf | DoneOf | EndOf

EVENT_BYTES = 512
CHAR_BYTES = 4
"""Of a Python string, at most."""
WORD_BYTES = 512
"""Of a pronunciation, beside its text: dictionaries and a part of a regular expression."""


class Outbox:
    __slots__ = ("_sending", "_waiting", "waiting_bytes")

    def __init__(self) -> None:
        self._waiting: list[Outgoing] = []
        """A list: it is short, and an empty deque takes 700 bytes for each session."""
        self.waiting_bytes = 0
        """Memory of the waiting events, estimated; without audio, which the engine limits."""
        self._sending: dict[tuple[int, int], SentenceState] = {}
        """Sentences whose start was sent and whose end was not."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def unsent_samples(self) -> int:
        return sum(len(each.samples) for each in self._waiting if isinstance(each, AudioChunk))

    def add(self, outgoing: Outgoing) -> None:
        self._waiting.append(outgoing)
        if not isinstance(outgoing, AudioChunk):
            self.waiting_bytes += _size_bytes(outgoing)

    def extend(self, outgoing: Iterable[Outgoing]) -> None:
        for each in outgoing:
            self.add(each)

    def clear(self) -> None:
        self._waiting.clear()
        self.waiting_bytes = 0

    def next_audio(self) -> AudioChunk | None:
        """The next event, if it is audio.  There are many: this is the shortest way to one."""
        if self._waiting and isinstance(audio := self._waiting[0], AudioChunk):
            del self._waiting[0]
            return audio
        return None

    def next(self) -> SessionEvent | None:
        """The next event; from here on it counts as sent."""
        if not self._waiting:
            return None
        outgoing = self._waiting.pop(0)
        if isinstance(outgoing, AudioChunk):
            return outgoing
        self.waiting_bytes -= _size_bytes(outgoing)
        match outgoing:
            case StartOf(sentence=sentence):
                self._sending[sentence.key] = sentence
                sentence.start_sent = True
                return sentence.started_event()
            case DoneOf(sentence=sentence):
                sentence.done_sent = True
                return sentence.done_event()
            case EndOf(utterance=utterance):
                utterance.done_sent = True
                return utterance.done_event()
            case _:
                return outgoing

    def sentence_of(self, event: AudioChunk | AudioEnd | SentenceDone) -> "SentenceState | None":
        """The sentence of a sent event; None after its `SentenceDone`, for which it is returned once."""
        key = (event.utterance_index, event.sentence_index)
        return self._sending.pop(key, None) if isinstance(event, SentenceDone) else self._sending.get(key)

    def withdraw(self, utterances: Collection["Utterance"]) -> None:
        """Removes the waiting events of cancelled utterances."""
        indices = {utterance.index for utterance in utterances}
        waiting = [each for each in self._waiting if _utterance_index(each) not in indices]
        self.clear()
        self.extend(waiting)


def _size_bytes(outgoing: Outgoing) -> int:
    match outgoing:
        case ConfigApplied(settings=settings, ignored=ignored):
            words, reference = settings.pronunciations.words, settings.reference
            texts = (settings.instructions or "", settings.ref_text or "", *ignored)
            chars = sum(map(len, texts)) + sum(len(word) + len(spelling) for word, spelling in words.items())
            recording_bytes = 0 if reference is None else reference.samples.nbytes
            floats = len(settings.speaker_embedding or ())
            return EVENT_BYTES + CHAR_BYTES * chars + WORD_BYTES * len(words) + recording_bytes + 32 * floats
        case Cancelled(text_spoken=spoken, text_remaining=remaining):
            return EVENT_BYTES + CHAR_BYTES * (len(spoken) + len(remaining))
    return EVENT_BYTES


def _utterance_index(outgoing: Outgoing) -> int | None:
    match outgoing:
        case AudioChunk() | AudioEnd() | Words() | SentenceFailed() | SentenceStarted():
            return outgoing.utterance_index
        case SegmentDone() | UtteranceDone():
            return outgoing.utterance_index
        case ResponseStarted() | ResponseText() | ResponseTextDone():
            return outgoing.utterance_index
        case StartOf(sentence=sentence) | DoneOf(sentence=sentence):
            return sentence.utterance.index
        case EndOf(utterance=utterance):
            return utterance.index
    return None
