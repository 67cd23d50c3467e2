"""Request table: running requests, those that wait for admission, and the leads of their listeners."""

import math
from collections import deque
from statistics import median

from realtime_tts.clock import Clock
from realtime_tts.engine.admission_queue import AdmissionQueue, WaitingUtterance
from realtime_tts.engine.api import FinishReason, SynthesisRequest
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.scheduling.admission import COMFORTABLE_LEAD_S, Admission
from realtime_tts.engine.scheduling.cost_model import CostModel
from realtime_tts.engine.scheduling.load import Load
from realtime_tts.engine.stage import Model
from realtime_tts.engine.state import PayloadBuffer, RequestState, StageProgress, Stream, deadline_s
from realtime_tts.engine.thinking.costs import STEP_SHARE
from realtime_tts.errors import Overloaded, RealtimeTTSError, WaitedTooLong

TYPICAL_ROWS = 16
"""The batch size at which a model's own statement of its costs has most weight."""
GROWTH_S = 1.0
"""The time over which the growth of the number of listeners is measured: chunks are sized for what it will reach."""


class RequestTable:
    """Every request and every listener, from the first sentence until their last audio is sent."""

    def __init__(self, model: Model, clock: Clock, config: EngineConfig, *, admission: bool) -> None:
        """`admission`: whether new listeners wait for capacity, or all are admitted at once."""
        self.requests: dict[str, RequestState] = {}
        """Not yet ended, in the order of submission."""
        self.queue = AdmissionQueue()
        """Of those, the ones that wait for admission."""
        self.open_requests = tuple(dict.fromkeys(spec.lanes, 0) for spec in model.specs)
        """For each stage: by lane, the requests that it keeps something for."""
        decode_batch = model.specs[-1].max_batch
        typical_frames = min(decode_batch, TYPICAL_ROWS) * model.chunk_plan.max_frames / 2
        self.costs = CostModel(model.costs, typical_rows=TYPICAL_ROWS, typical_frames=typical_frames)
        self._model = model
        self._clock = clock
        self._config = config
        self._limits_listeners = admission
        self._admission = Admission(config.max_wait_s, config.max_queued)
        self._decode_batch = decode_batch
        self._stage_lanes = model.stage_lanes
        self._slots = min((s.slots * s.replicas for s in model.specs if s.slots is not None), default=None)
        self._streams: dict[str, Stream] = {}
        self._unsent: dict[str, RequestState] = {}
        """Ended, with audio that has not yet been sent: it still counts as their listeners' lead."""
        self._history: deque[tuple[float, int]] = deque([(clock.now_s(), 0)])
        self._sequence = 0
        self._accepted: list[str] = []
        self._admission.estimate(self.load())

    @property
    def capacity(self) -> int | None:
        """Listeners that are admitted at once; None where all are."""
        return self._capacity if self._limits_listeners else None

    @property
    def _capacity(self) -> int:
        return self._admission.capacity if self._slots is None else min(self._admission.capacity, self._slots)

    def admitted(self) -> list[RequestState]:
        return [state for state in self.requests.values() if state.admitted]

    # -- Admission and removal -----------------------------------------------------------------------------------------

    def refusal(self, request: SynthesisRequest) -> RealtimeTTSError | None:
        """Why a request is refused; None where it is accepted."""
        if len(self.requests) >= self._config.max_requests:
            return Overloaded(f"the engine already has {self._config.max_requests} requests")
        if request.resume is not None or not self._needs_admission(request) or self._is_expected(request):
            return None
        self._tick()
        if not request.live:
            return self._patient_refusal()
        listeners = self.queue.listeners
        if not listeners and self._occupied() < self._capacity:
            return None
        return self._admission.refusal(listeners, self._capacity, self._clock.now_s())

    def _patient_refusal(self) -> RealtimeTTSError | None:
        queued = self.queue.patient
        if queued < self._config.max_queued or (not self.queue.listeners and self._occupied() < self._capacity):
            return None
        words = f"at the capacity of {self._capacity} listeners, and {queued} requests are queued, which is the limit"
        return self._admission.patient_refusal(words, queued, self._capacity, self.load(), self._clock.now_s())

    def overdue(self) -> list[tuple[RequestState, RealtimeTTSError]]:
        """Requests that were queued for the longest permitted time, with the errors that end them."""
        now_s, limit_s = self._clock.now_s(), self._config.queue_s
        late = [each for each in self.queue.patients() if now_s >= each.joined_s + limit_s]
        words = f"at the capacity of {self._capacity} listeners: waited {limit_s:g} s for it"
        behind = self.queue.patient - len(late)
        found: list[tuple[RequestState, RealtimeTTSError]] = []
        for utterance in late:
            refusal = self._admission.patient_refusal(words, behind, self._capacity, self.load(), now_s)
            error = WaitedTooLong(refusal.message, retry_after_s=refusal.retry_after_s or 1.0)
            found += [(state, error) for state in utterance.requests]
        return found

    def next_change_s(self) -> float | None:
        """When a queued request is to be admitted or ended, if nothing else happens before."""
        first = self.queue.next_patient()
        if first is None:
            return None
        return self._admission.next_change_s(first.joined_s + self._config.queue_s, self._clock.now_s())

    def add(self, request: SynthesisRequest) -> None:
        now_s = self._clock.now_s()
        needs_admission = request.resume is None and self._needs_admission(request)
        stream = self._streams.setdefault(request.stream_id, Stream(request.stream_id))
        state = RequestState(
            request=request,
            sequence=self._sequence,
            submitted_s=now_s,
            stream=stream,
            stages=tuple(StageProgress(PayloadBuffer(spec.join)) for spec in self._model.specs),
            served_s=now_s,
        )
        state.stages[0].starved = request.awaits_text and request.context is None  # there is nothing to read yet
        self._sequence += 1
        if (resume := request.resume) is not None:
            state.samples_out, state.samples_sent = resume.samples_received, resume.samples_sent
            stream.playout_end_s = now_s + resume.lead_s
        stream.requests.append(state)
        self.requests[request.request_id] = state
        if request.awaits_text and request.live:
            self._accepted.append(request.request_id)
        if needs_admission:
            self.queue.add(state, now_s)
            self.admit_waiting()
        else:
            self._admit(state)

    def admit_waiting(self) -> None:
        """Admits those who wait, in the order of the queue, while there is capacity."""
        self._tick()
        now_s = self._clock.now_s()
        if self.queue:
            self._admit_from_queue(now_s)
        self._admission.on_patients_waiting(self.queue.patient, now_s)

    def _admit_from_queue(self, now_s: float) -> None:
        occupied = self._occupied()
        while (utterance := self.queue.next_live()) is not None and occupied < self._capacity:
            self._admit_utterance(utterance)
            occupied += 1
        if self.queue.patient and not self.queue.listeners:
            self._admit_patients(occupied, now_s)

    def _admit_patients(self, occupied: int, now_s: float) -> None:
        limit = self._admission.patient_capacity(self._capacity, self.load(), now_s)
        while (utterance := self.queue.next_patient()) is not None and occupied < limit:
            self._admit_utterance(utterance)
            self._admission.on_patient_admitted(now_s)
            occupied += 1

    def _admit_utterance(self, utterance: WaitingUtterance) -> None:
        self.queue.take(utterance)
        if utterance.live:
            self._admission.observe_admission(new=utterance.is_new)
        for state in utterance.requests:
            self._admit(state)

    def pop_accepted(self) -> list[str]:
        """Requests that await their text, and were accepted since the last call.

        A live one is when it is submitted: it may wait, and is not refused any more.  One that is not live is when it
        is admitted, since it may be queued for too long.
        """
        accepted, self._accepted = self._accepted, []
        return [request_id for request_id in accepted if request_id in self.requests]

    def _admit(self, state: RequestState) -> None:
        if state.request.awaits_text and not state.request.live:
            self._accepted.append(state.request_id)
        state.admitted = True
        state.stream.utterance_index = state.request.utterance_index

    def _is_expected(self, request: SynthesisRequest) -> bool:
        """Whether it is more speech of a present listener: it may have to wait, and is never refused.

        It may be a next sentence, of an utterance that waits, or that was played completely before more of its text was
        received; or a next utterance, while the one before it waits, is made, or is played.
        """
        stream = self._streams.get(request.stream_id)
        if stream is None:
            return False
        begun = stream.utterance_index == request.utterance_index
        return begun or bool(stream.requests) or stream.is_speaking(self._clock.now_s())

    def remove(self, state: RequestState) -> None:
        """Removes a request that has ended; its unsent audio still counts, unless it was cancelled."""
        del self.requests[state.request_id]
        if not state.admitted:
            self.queue.remove(state)
        self.queue.on_end(state.stream, self._clock.now_s())
        if state.ended is not FinishReason.CANCELLED and state.samples_unsent:
            self._unsent[state.request_id] = state
        else:
            self._forget(state)

    def sent(self, request_id: str, *, samples: int, playout_end_s: float) -> None:
        """So many samples were sent to the listener, who now has audio until `playout_end_s`."""
        state = self.requests.get(request_id) or self._unsent.get(request_id)
        if state is None:
            return
        state.samples_sent += samples
        state.stream.playout_end_s = playout_end_s
        if state.ended is not None and not state.samples_unsent:
            self._forget(state)

    def forget_unsent(self, request_id: str) -> None:
        """The unsent audio of an ended request will never be sent."""
        if (state := self._unsent.get(request_id)) is not None:
            self._forget(state)

    def set_playout_end(self, stream_id: str, playout_end_s: float) -> None:
        if (stream := self._streams.get(stream_id)) is not None and stream.playout_end_s is not None:
            stream.playout_end_s = playout_end_s

    def of_stream(self, stream_id: str) -> list[RequestState]:
        """A listener's requests that have not ended."""
        stream = self._streams.get(stream_id)
        return [] if stream is None else [state for state in stream.requests if state.ended is None]

    def end_stream(self, stream_id: str) -> None:
        """Forgets a listener, all of whose requests have ended."""
        if (stream := self._streams.pop(stream_id, None)) is not None:
            for state in list(stream.requests):
                self._forget(state)

    def _forget(self, state: RequestState) -> None:
        self._unsent.pop(state.request_id, None)
        state.stream.requests.remove(state)

    # -- Progress ------------------------------------------------------------------------------------------------------

    def open_stage(self, state: RequestState, index: int, lane: str) -> None:
        """A stage begins to keep something for a request, on `lane`."""
        state.stages[index].lane = lane
        self.open_requests[index][lane] += 1

    def close_stage(self, state: RequestState, index: int, lane: str) -> None:
        state.stages[index].lane = None
        self.open_requests[index][lane] -= 1

    def observe_whole(self, state: RequestState) -> None:
        """A request was made completely: what later estimates learn from it."""
        self._admission.observe_request(state.samples_out / self._model.info.sample_rate_hz)
        self.costs.observe_request([stage.output.count for stage in state.stages[:-2]], state.source.output.count)

    def deadline_s(self, state: RequestState) -> float:
        """When its listener runs dry, see `state.deadline_s`."""
        info = self._model.info
        return deadline_s(
            state,
            first_audio_target_s=self._config.first_audio_target_s,
            samples_per_frame=info.samples_per_frame,
            sample_rate_hz=info.sample_rate_hz,
        )

    def load(self) -> Load:
        """How busy the engine is, and will be in a moment.

        A stream that starts while others start has to share with them: a first chunk sized for the present number left
        gaps of 120 ms at p95 when 50 listeners started within 3 s.  The number of listeners also varies at random, by
        up to twice its square root: at load 0.85, allowing for that raised the streams in time from 98.8 to 99.9%.
        """
        admitted = self.admitted()
        streams = self._listeners()
        growth = max(streams - self._history[0][1], math.isqrt(4 * max(0, streams - 1)))
        growth = max(0, min(growth, self._capacity - streams)) if self._limits_listeners else 0
        *upstream, generating = (self._unfinished(admitted, index) for index in range(len(self._stage_lanes) - 1))
        return Load(
            costs=self.costs.costs,
            plan=self._model.chunk_plan,
            frame_s=self._model.info.frame_s,
            streams=streams + growth,
            generating=generating + growth,
            decode_batch=self._decode_batch,
            lanes=self._stage_lanes,
            upstream_rows=tuple(rows + growth for rows in upstream),
            nominal_streams=self._model.nominal_streams,
            token_interval_s=_token_interval_s(admitted, self._model.info.frame_s),
        )

    def _unfinished(self, admitted: list[RequestState], index: int) -> int:
        return sum(not state.stages[index].finished for state in admitted)

    def _listeners(self) -> int:
        """Streams with an admitted request: the next sentence of one that plays is the same listener."""
        return len({state.request.stream_id for state in self.admitted()})

    def _needs_admission(self, request: SynthesisRequest) -> bool:
        if not self._limits_listeners:
            return False
        stream = self._streams.get(request.stream_id)
        return stream is None or not stream.is_admitted(request.utterance_index, self._clock.now_s())

    def _tick(self) -> None:
        now_s = self._clock.now_s()
        if self._limits_listeners and self._admission.due(now_s):
            self._history.append((now_s, self._listeners()))
            while self._history[0][0] < now_s - GROWTH_S:
                self._history.popleft()
            playing = [s for s in self.requests.values() if s.chunks and not s.source.finished and not s.text_starved]
            self._admission.tick(self.load(), [self.deadline_s(state) - now_s for state in playing], now_s)

    def _occupied(self) -> int:
        """Listeners who have no comfortable lead yet.  A listener counts once, however many of its sentences run."""
        now_s = self._clock.now_s()
        frame_s = self._model.info.frame_s
        wanting = set()
        for state in self.admitted():
            if state.request.stream_id not in wanting:
                lead_s = self.deadline_s(state) - now_s
                if not state.source.finished:  # then frames are the expensive part, and pending ones are nearly audio
                    lead_s += state.pending_frames * frame_s
                if not state.chunks or lead_s < COMFORTABLE_LEAD_S:
                    wanting.add(state.request.stream_id)
        return len(wanting)


def _token_interval_s(admitted: list[RequestState], frame_s: float) -> float:
    """The interval at which tokens are expected, for the answers that are still being written; 0 where there are none.

    It is the median of the last intervals: while a new prompt is read, the next token of all others is late once, and
    that says little of the rest.  While prompts wait to be read, steps of the Thinker are as long as they may be: 64
    answers within 640 ms, a quarter of them with 1000 tokens of prompt, simulated: underrun p95 168 ms by the median
    alone, 82 ms with this.
    """
    intervals = [
        interval_s
        for state in admitted
        if not state.request.text_complete and (interval_s := state.token_intervals.interval_s) is not None
    ]
    if not intervals:
        return 0.0
    waiting = any(state.request.awaits_text for state in admitted)
    return max(median(intervals), STEP_SHARE * frame_s if waiting else 0.0)
