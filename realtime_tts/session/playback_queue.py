"""The playback queue: sentences that are played one after the other, on one playout clock."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from realtime_tts.audio.playout import PlayoutClock
from realtime_tts.engine.api import AudioSent, Cancel, EngineCommand, FinishReason, PlayoutEnd, RequestFinished
from realtime_tts.session.outbox import DoneOf, EndOf, Outbox, StartOf
from realtime_tts.session.sentence import SentenceState

if TYPE_CHECKING:
    from realtime_tts.session.utterance import Utterance

MAX_CORRECTION_S = 0.25
"""The most by which a client's report moves its own deadline."""


class PlaybackQueue:
    """A session has one; with frame headers each context has its own, and these are played side by side."""

    __slots__ = (
        *("_last_sent_s", "_playout", "_sentences_ahead", "_submitted", "_unsent"),
        *("stream_id", "utterances", "waiting_chars"),
    )

    def __init__(self, stream_id: str, sentences_ahead: int, now_s: float) -> None:
        self.stream_id = stream_id
        self.utterances: list[Utterance] = []
        """Not yet wholly passed on, in playback order."""
        self.waiting_chars = 0
        """Of sentences that are not yet submitted."""
        self._sentences_ahead = sentences_ahead
        self._submitted: dict[str, SentenceState] = {}
        """At the engine, by request id."""
        self._unsent: dict[SentenceState, None] = {}
        """Submitted, and not yet wholly sent."""
        self._playout = PlayoutClock()
        self._last_sent_s = now_s

    @property
    def playout_end_s(self) -> float | None:
        """When the listener has played all that was sent; None before the first audio."""
        return self._playout.end_s

    def add(self, state: SentenceState) -> None:
        """The next sentence of its utterance."""
        state.utterance.sentences.append(state)
        self.waiting_chars += _waiting_chars(state)

    def submit_next(self) -> Iterator[EngineCommand]:
        """Submits sentences in playback order: the one that is being sent, and `sentences_ahead` behind it.

        A sentence counts until it is sent, so a client that does not read stops its own generation, and only that.
        """
        for utterance in self.utterances:
            while len(self._unsent) <= self._sentences_ahead and (state := utterance.next_to_submit()) is not None:
                if state.finished is not None:
                    continue  # it has failed before
                self.waiting_chars -= _waiting_chars(state)
                self._submitted[state.request.request_id] = state
                self._unsent[state] = None
                yield state.submission()
            if not utterance.complete:
                return  # later utterances must not occupy the slots that more text of this one needs

    def has_room(self, utterance: "Utterance") -> bool:
        """Whether another sentence of `utterance` would be submitted at once."""
        is_next = bool(self.utterances) and self.utterances[0] is utterance and not utterance.has_waiting
        return is_next and len(self._unsent) <= self._sentences_ahead

    def submitted(self, request_id: str) -> SentenceState | None:
        return self._submitted.get(request_id)

    def finish(self, state: SentenceState, event: RequestFinished) -> None:
        del self._submitted[event.request_id]
        state.finished = event
        if not state.is_spoken:
            self._unsent.pop(state, None)  # nothing of it is sent

    def is_first(self, state: SentenceState) -> bool:
        """Whether its utterance is next in playback order and nothing of it has been sent.

        Otherwise an error concerns this sentence alone: audio that is being sent is not interrupted.
        """
        utterance = self.utterances[0]
        return utterance.current is state and state.index == 0 and not state.started

    def pass_on(self, outbox: Outbox, has_several: Callable[[], bool]) -> None:
        """Moves everything that is next in playback order to the outbox, as far as the engine has made it.

        `has_several`: whether several contexts are open; sentences that start then are labelled in any case.
        """
        while self.utterances:
            utterance = self.utterances[0]
            while (state := utterance.current) is not None:
                state.pass_on_text(outbox)
                if not state.started and state.is_spoken and (state.held or state.finished is not None):
                    outbox.add(StartOf(state))
                    state.start(outbox, labelled=utterance.settings.frame_header or has_several())
                state.pass_on(outbox)
                if state.finished is None:
                    return
                utterance.passed_on += 1
                state.end(outbox)
                if state.is_spoken:
                    outbox.add(DoneOf(state))
                outbox.extend(utterance.segments_done())
            outbox.extend(utterance.segments_done())  # of a commit without sentences
            if not utterance.complete:
                return
            self.utterances.pop(0)
            outbox.add(EndOf(utterance))

    # -- Sent ----------------------------------------------------------------------------------------------------------

    def on_audio_sent(self, state: SentenceState, audio_s: float, now_s: float) -> AudioSent | None:
        """`audio_s` of a sentence went to the socket at `now_s`."""
        if state.utterance.cancelled:  # its write was in progress when the cancel arrived: the client discards it
            return None
        if state.due_from_s is None:
            state.due_from_s = max(state.speakable_at_s, self._last_sent_s)
        samples = state.on_audio_sent(audio_s, now_s, self._playout.end_s)
        self._last_sent_s = now_s
        return AudioSent(state.request.request_id, samples, self._playout.advance(now_s, audio_s) - now_s)

    def on_sentence_sent(self, state: SentenceState, now_s: float) -> Iterator[EngineCommand]:
        """A sentence was completely sent: another one may be submitted."""
        self._unsent.pop(state, None)
        if (samples := state.on_done_sent()) and not state.utterance.cancelled:
            yield AudioSent(state.request.request_id, samples, self._playout.lead_s(now_s))
        yield from self.submit_next()

    # -- Barge-in ------------------------------------------------------------------------------------------------------

    def cancel(self, utterances: list["Utterance"], unplayed_s: float, now_s: float) -> Iterator[EngineCommand]:
        """Ends these utterances; `unplayed_s` of their audio was sent and is not played."""
        for utterance in utterances:
            self.waiting_chars -= sum(map(_waiting_chars, utterance.sentences[utterance.submitted :]))
            utterance.cancel()
        self.utterances = [each for each in self.utterances if not each.cancelled]
        for state in [state for state in self._unsent if state.utterance.cancelled]:
            del self._unsent[state]
            self._submitted.pop(state.request.request_id, None)
            state.finished = RequestFinished(state.request.request_id, FinishReason.CANCELLED)
            state.held.clear()
            yield Cancel(state.request.request_id)
        self._playout.discard(unplayed_s)
        if self._playout.end_s is not None:
            yield PlayoutEnd(self.stream_id, max(0.0, self._playout.lead_s(now_s)))
        yield from self.submit_next()

    def on_buffer_report(self, buffered_s: float, now_s: float) -> Iterator[EngineCommand]:
        """The client reports how much audio it still buffers.

        Bounded so that a client cannot raise its own priority by reporting too little.
        """
        lead_s = self._playout.lead_s(now_s)
        if self._playout.end_s is not None and buffered_s < lead_s:
            yield PlayoutEnd(self.stream_id, max(buffered_s, lead_s - MAX_CORRECTION_S))

    def clear(self) -> None:
        self._submitted.clear()
        self._unsent.clear()
        self.utterances.clear()
        self.waiting_chars = 0


def _waiting_chars(state: SentenceState) -> int:
    """Of a sentence that is not yet submitted; one that has failed before does not wait."""
    return 0 if state.finished is not None else len(state.sentence.text)
