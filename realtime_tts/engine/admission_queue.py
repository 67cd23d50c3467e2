"""Admission queue: the utterances that wait for capacity, in the order in which they are admitted."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from realtime_tts.engine.state import RequestState, Stream


@dataclass(slots=True, eq=False)
class WaitingUtterance:
    """The sentences of one utterance that wait: they are admitted together, as one listener."""

    stream: Stream
    utterance_index: int
    live: bool
    is_new: bool
    """Whether its listener did not speak when it came: it needs capacity that nobody has."""
    line: deque["WaitingUtterance"]
    """Where it waits."""
    joined_s: float
    """When it began to wait there."""
    requests: list[RequestState] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int]:
        return self.stream.stream_id, self.utterance_index

    @property
    def is_behind_own(self) -> bool:
        """Whether an earlier utterance of its listener has not ended."""
        first = self.requests[0].sequence
        return any(
            state.ended is None and state.sequence < first and state.request.utterance_index != self.utterance_index
            for state in self.stream.requests
        )


class AdmissionQueue:
    """Five lines, each of them first come, first served.

    1. `begun`: utterances that were played completely before more of their text was received.
    2. `next`: next utterances of listeners whose previous one has ended.
    3. `new`: new listeners.
    4. `ahead`: utterances whose listener is still busy with an earlier one.  They use capacity that nobody else wants.
    5. `patient`: requests that nobody listens to yet.

    A later line is served when the earlier ones are empty, but a new listener who has waited for `FAIR_S` goes before
    the next utterances that joined after that: so a listener keeps its capacity from one utterance to the next, and one
    who never stops does not keep all others waiting for ever.
    """

    FAIR_S = 5.0
    """About the duration of a usual request: what a listener expects to wait who is first in the queue."""

    def __init__(self) -> None:
        self._begun: deque[WaitingUtterance] = deque()
        self._next: deque[WaitingUtterance] = deque()
        self._new: deque[WaitingUtterance] = deque()
        self._ahead: deque[WaitingUtterance] = deque()
        self._patient: deque[WaitingUtterance] = deque()
        self._by_key: dict[tuple[str, int], WaitingUtterance] = {}
        self._sentences = 0

    def __len__(self) -> int:
        """Sentences that wait."""
        return self._sentences

    @property
    def listeners(self) -> int:
        """Listeners who wait, each for its present utterance."""
        return len(self._begun) + len(self._next) + len(self._new)

    @property
    def patient(self) -> int:
        """Requests that nobody listens to yet."""
        return len(self._patient)

    def add(self, state: RequestState, now_s: float) -> None:
        """One more sentence that waits; it is the last one of its stream."""
        self._sentences += 1
        stream, index = state.stream, state.request.utterance_index
        utterance = self._by_key.get((stream.stream_id, index))
        if utterance is not None:
            utterance.requests.append(state)
            return
        utterance = WaitingUtterance(
            stream, index, state.request.live, not stream.is_speaking(now_s), self._ahead, now_s, [state]
        )
        self._by_key[utterance.key] = utterance
        self._join(utterance, now_s)

    def remove(self, state: RequestState) -> None:
        """A sentence has stopped waiting: it has ended."""
        utterance = self._by_key[state.stream.stream_id, state.request.utterance_index]
        utterance.requests.remove(state)
        self._sentences -= 1
        if not utterance.requests:
            self.take(utterance)

    def take(self, utterance: WaitingUtterance) -> None:
        """An utterance has stopped waiting."""
        self._sentences -= len(utterance.requests)
        utterance.line.remove(utterance)
        del self._by_key[utterance.key]

    def on_end(self, stream: Stream, now_s: float) -> None:
        """A request of `stream` has ended: the next utterance may no longer be behind another one."""
        for utterance in [each for each in self._ahead if each.stream is stream]:
            self._ahead.remove(utterance)
            self._join(utterance, now_s)

    def next_live(self) -> WaitingUtterance | None:
        """The next one to be admitted, other than a patient one."""
        if not self._begun and self._next and self._new:
            new, following = self._new[0], self._next[0]
            return new if new.joined_s + self.FAIR_S <= following.joined_s else following
        return next((line[0] for line in (self._begun, self._next, self._new, self._ahead) if line), None)

    def patients(self) -> Iterator[WaitingUtterance]:
        return iter(self._patient)

    def next_patient(self) -> WaitingUtterance | None:
        """The next one to be admitted if there is no `next_live`: it has waited longest of its line."""
        return self._patient[0] if self._patient else None

    def _join(self, utterance: WaitingUtterance, now_s: float) -> None:
        utterance.line, utterance.joined_s = self._line_of(utterance, now_s), now_s
        utterance.line.append(utterance)

    def _line_of(self, utterance: WaitingUtterance, now_s: float) -> deque[WaitingUtterance]:
        stream = utterance.stream
        if stream.utterance_index == utterance.utterance_index:
            return self._begun
        if utterance.is_behind_own:
            return self._ahead
        if stream.is_speaking(now_s):
            return self._next
        return self._new if utterance.live else self._patient
