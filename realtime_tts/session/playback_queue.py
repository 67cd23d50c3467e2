"""One line of speech: what a listener hears one after the other, on one playout clock."""

from collections import deque
from collections.abc import Iterator

from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.engine.api import AudioSent, Cancel, FinishReason, PlayoutEnd, RequestFinished, Submit
from realtime_tts.session.outputs import Command
from realtime_tts.session.utterance import (
    SendAudio,
    Sending,
    SendUtteranceDone,
    SentenceJob,
    Utterance,
)

MAX_CORRECTION_S = 0.25
"""By which a client's word moves its own deadline."""


class Track:
    """A session has one, or, where frames have headers, one for each context: then these are heard side by side."""

    def __init__(self, stream_id: str, sentences_ahead: int, now_s: float) -> None:
        self.stream_id = stream_id
        self.utterances: deque[Utterance] = deque()
        """Not yet wholly passed on, in the order of hearing."""
        self.waiting_chars = 0
        self._sentences_ahead = sentences_ahead
        self._submitted: dict[str, SentenceJob] = {}
        self._unsent: dict[SentenceJob, None] = {}
        """With the engine, or behind it, and not yet wholly sent."""
        self._playout = PlayoutLedger()
        self._last_routed_s = now_s

    @property
    def playout_end_s(self) -> float | None:
        return self._playout.playout_end_s

    def add(self, job: SentenceJob) -> None:
        job.utterance.waiting.append(job)
        self.waiting_chars += len(job.sentence.text)

    def fill(self) -> Iterator[Command]:
        """Hands sentences to the engine, in the order of hearing: the one that speaks, and those right behind it.

        A sentence counts until it is sent, so a client who does not read stops its own generation, and only that.
        """
        for utterance in self.utterances:
            while utterance.waiting and len(self._unsent) <= self._sentences_ahead:
                job = utterance.waiting.popleft()
                self.waiting_chars -= len(job.sentence.text)
                self._submitted[job.request.request_id] = job
                self._unsent[job] = None
                yield Submit(job.request)
            if not utterance.complete:
                return  # more of it may come, and must not find the places taken by what is heard after it

    def has_room(self, utterance: Utterance) -> bool:
        """Whether another sentence of it would go to the engine at once."""
        is_next = bool(self.utterances) and self.utterances[0] is utterance and not utterance.waiting
        return is_next and len(self._unsent) <= self._sentences_ahead

    def job_of(self, request_id: str) -> SentenceJob | None:
        return self._submitted.get(request_id)

    def finish(self, job: SentenceJob, event: RequestFinished) -> None:
        del self._submitted[event.request_id]
        job.finished = event

    def is_first(self, job: SentenceJob) -> bool:
        """Whether nothing was heard of its utterance and nothing before it is still to come.

        Else an error is its sentence's alone: what is being spoken is never cut off for what was to follow.
        """
        utterance = self.utterances[0]
        return utterance.jobs[0] is job and job.index == 0 and not job.started

    def advance(self, *, framed: bool) -> Iterator[Sending | SendUtteranceDone]:
        """Passes on whatever is next in the order of hearing, as far as it is there.

        `framed`: sentences that begin now have frame headers, whatever their settings say.
        """
        while self.utterances:
            utterance = self.utterances[0]
            headers = framed or utterance.settings.frame_header
            while utterance.jobs:
                job = utterance.jobs[0]
                yield from job.pass_on(framed=headers)
                if job.finished is None:
                    return
                utterance.jobs.popleft()
                yield from job.end(framed=headers)
            if not utterance.complete:
                return
            self.utterances.popleft()
            yield SendUtteranceDone(utterance)

    # -- From the socket -----------------------------------------------------------------------------------------------

    def on_audio_sent(self, audio: SendAudio, now_s: float) -> Iterator[Command]:
        """`audio` was routed to the socket at `now_s`."""
        job = audio.job
        if job.utterance.cancelled:  # it was on its way when the barge-in came: sent, but not to be heard
            job.total_bytes += len(audio.data)
            job.samples += audio.samples
            return
        if job.wanted_s is None:
            job.wanted_s = max(job.opened_s, self._last_routed_s)
        samples = job.on_sent(audio, now_s, self._playout.playout_end_s)
        self._playout.record(arrived_at_s=now_s, duration_s=audio.duration_s)
        self._last_routed_s = now_s
        yield AudioSent(job.request.request_id, samples, self._end_s(now_s) - now_s)

    def on_sentence_sent(self, job: SentenceJob, now_s: float) -> Iterator[Command]:
        """A sentence has wholly gone out: there is room for another with the engine."""
        self._unsent.pop(job, None)
        if (samples := job.on_done_sent()) and not job.utterance.cancelled:
            yield AudioSent(job.request.request_id, samples, self._end_s(now_s) - now_s)
        yield from self.fill()

    def _end_s(self, now_s: float) -> float:
        return now_s if self._playout.playout_end_s is None else self._playout.playout_end_s

    # -- Barge-in ------------------------------------------------------------------------------------------------------

    def cancel(self, utterances: list[Utterance], unplayed_s: float, now_s: float) -> Iterator[Command]:
        """Ends these at once, wherever they are; `unplayed_s` of their sound will not be heard after all."""
        ended = set(map(id, utterances))
        for utterance in utterances:
            utterance.cancelled = utterance.complete = True
            utterance.jobs.clear()
            self.waiting_chars -= sum(len(job.sentence.text) for job in utterance.waiting)
            utterance.waiting.clear()
        self.utterances = deque(each for each in self.utterances if id(each) not in ended)
        for job in [job for job in self._unsent if job.utterance.cancelled]:
            del self._unsent[job]
            self._submitted.pop(job.request.request_id, None)
            job.finished = RequestFinished(job.request.request_id, FinishReason.CANCELLED)
            job.held.clear()
            yield Cancel(job.request.request_id)
        self._playout.discard(unplayed_s)
        if self._playout.playout_end_s is not None:
            yield PlayoutEnd(self.stream_id, max(0.0, self._playout.playout_end_s - now_s))
        yield from self.fill()

    def hears_until(self, playout_end_s: float, now_s: float) -> Iterator[Command]:
        """The client says that it will run dry sooner than was reckoned: believed within bounds, lest whoever says so
        goes before all others."""
        reckoned_s = self._playout.playout_end_s
        if reckoned_s is not None and playout_end_s < reckoned_s:
            yield PlayoutEnd(self.stream_id, max(playout_end_s, reckoned_s - MAX_CORRECTION_S) - now_s)

    def clear(self) -> None:
        self._submitted.clear()
        self._unsent.clear()
        self.utterances.clear()
        self.waiting_chars = 0
