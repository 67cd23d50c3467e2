"""Who is here: requests that run, those that wait for a place, and their listeners' leads.  Owned by the engine."""

import math
from collections import deque

from realtime_tts.clock import Clock
from realtime_tts.engine.api import FinishReason, SynthesisRequest
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.scheduling.admission import COMFORTABLE_LEAD_S, Admission
from realtime_tts.engine.scheduling.chunking import Load
from realtime_tts.engine.scheduling.cost_model import CostModel
from realtime_tts.engine.stage import Model
from realtime_tts.engine.state import RequestState, StageProgress, Stream, deadline_s
from realtime_tts.errors import Overloaded, RealtimeTTSError

TYPICAL_ROWS = 16
"""Where a model's own statement of its costs is believed most."""
GROWTH_S = 1.0
"""Over which the number of listeners is watched: while it climbs, chunks are sized for where it will be."""


class Roster:
    """Every request and every listener, from the first sentence until nothing of them is left."""

    def __init__(self, model: Model, clock: Clock, config: EngineConfig, *, admits: bool) -> None:
        """`admits`: whether new listeners wait for a place, or all are let in at once."""
        self.requests: dict[str, RequestState] = {}
        """Not yet ended, in the order of coming."""
        self.waiting: deque[RequestState] = deque()
        """Of those, the ones that wait for a place."""
        self._model = model
        self._clock = clock
        self._config = config
        self._admits = admits
        decoder = model.stages[-1]
        self._decode_batch = decoder.max_batch
        self._shared_lane = any(stage.lane == decoder.lane for stage in model.stages[:-1])
        typical_frames = min(decoder.max_batch, TYPICAL_ROWS) * model.chunk_plan.max_frames / 2
        self.costs = CostModel(model.costs, typical_rows=TYPICAL_ROWS, typical_frames=typical_frames)
        self.admission = Admission(config.max_wait_s)
        self._streams: dict[str, Stream] = {}
        self._unrouted: dict[str, RequestState] = {}
        """Ended, with sound that has not yet been sent: it still counts as their listeners' lead."""
        self._history: deque[tuple[float, int]] = deque([(clock.now_s(), 0)])
        self._sequence = 0

    @property
    def places(self) -> int | None:
        """Listeners that admission reckons with; None where everybody is let in."""
        return self._places if self._admits else None

    @property
    def _places(self) -> int:
        slots = self._model.slots
        return self.admission.places if slots is None else min(self.admission.places, slots)

    def admitted(self) -> list[RequestState]:
        return [state for state in self.requests.values() if state.admitted]

    # -- Coming and going ----------------------------------------------------------------------------------------------

    def refusal(self, request: SynthesisRequest) -> RealtimeTTSError | None:
        """Why a request is not taken; None where it is."""
        if len(self.requests) >= self._config.max_requests:
            return Overloaded(f"the engine already holds {self._config.max_requests} requests")
        if self._wants_place(request) and not self._goes_on(request):
            self._tick()
            if self.waiting or self._places_taken() >= self._places:
                listeners = len({state.request.stream_id for state in self.waiting})
                return self.admission.refusal(listeners, self._places)
        return None

    def add(self, request: SynthesisRequest) -> None:
        now_s = self._clock.now_s()
        wants_place = self._wants_place(request)
        stream = self._streams.setdefault(request.stream_id, Stream(request.stream_id))
        state = RequestState(
            request=request,
            sequence=self._sequence,
            submitted_s=now_s,
            stream=stream,
            stages=tuple(StageProgress() for _ in self._model.stages),
            served_s=now_s,
        )
        self._sequence += 1
        stream.requests.append(state)
        self.requests[request.request_id] = state
        if wants_place:
            if stream.utterance_index == request.utterance_index:
                self.waiting.appendleft(state)  # somebody sits there, in mid-speech
            else:
                self.waiting.append(state)
            self.admit()
        else:
            self._let_in(state)

    def admit(self) -> None:
        """Lets those who wait in, first come first served, as places become free."""
        self._tick()
        if not self.waiting:
            return
        taken = self._places_taken()
        while self.waiting and taken < self._places:
            first = self.waiting[0]
            for state in list(first.stream.waiting(first.request.utterance_index)):
                self.waiting.remove(state)
                self._let_in(state)
            taken += 1

    def _let_in(self, state: RequestState) -> None:
        state.admitted = True
        state.stream.utterance_index = state.request.utterance_index

    def _goes_on(self, request: SynthesisRequest) -> bool:
        """Whether it is a next sentence, which must not be missing in mid-speech: it may wait, and is never refused.

        Either the utterance waits already: then all of it comes in on one place.  Or it had begun, and was heard to its
        end before more of its text came.
        """
        stream, utterance = self._streams.get(request.stream_id), request.utterance_index
        return stream is not None and (stream.utterance_index == utterance or any(stream.waiting(utterance)))

    def remove(self, state: RequestState) -> None:
        """Takes out a request that has ended; its sound that is still unsent is remembered, unless it was cancelled."""
        del self.requests[state.request_id]
        if not state.admitted:
            self.waiting.remove(state)
        if state.ended is not FinishReason.CANCELLED and state.samples_unrouted:
            self._unrouted[state.request_id] = state
        else:
            self._forget(state)

    def routed(self, request_id: str, *, samples: int, playout_end_s: float) -> None:
        state = self.requests.get(request_id) or self._unrouted.get(request_id)
        if state is None:
            return
        state.samples_routed += samples
        state.stream.playout_end_s = playout_end_s
        if state.ended is not None and not state.samples_unrouted:
            self._forget(state)

    def forget_unrouted(self, request_id: str) -> None:
        """What of an ended request is still unsent will never be."""
        if (state := self._unrouted.get(request_id)) is not None:
            self._forget(state)

    def playout(self, stream_id: str, playout_end_s: float) -> None:
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
        self._unrouted.pop(state.request_id, None)
        state.stream.requests.remove(state)

    # -- How they fare -------------------------------------------------------------------------------------------------

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
        """How busy the engine is, and is about to be.

        A stream that starts while others do will have to share with them: sized for the present, its first chunk
        left 120 ms gaps at p95 where 50 listeners came within 3 s.  And the others, who come and go by chance, will be
        more by twice their square root now and then: at 0.85 load that took the streams in time from 98.8 to 99.9%.
        """
        streams = self._listeners()
        growth = max(streams - self._history[0][1], math.isqrt(4 * max(0, streams - 1)))
        growth = max(0, min(growth, self._places - streams)) if self._admits else 0
        return Load(
            costs=self.costs.costs,
            plan=self._model.chunk_plan,
            frame_s=self._model.info.frame_s,
            streams=streams + growth,
            generating=sum(not state.source.finished for state in self.admitted()) + growth,
            decode_batch=self._decode_batch,
            shared_lane=self._shared_lane,
            places=self._model.nominal_streams,
        )

    def _listeners(self) -> int:
        """Streams with an admitted request: the next sentence of one that speaks is the same listener."""
        return len({state.request.stream_id for state in self.admitted()})

    def _wants_place(self, request: SynthesisRequest) -> bool:
        stream = self._streams.get(request.stream_id)
        has_place = stream is not None and stream.has_place(request.utterance_index, self._clock.now_s())
        return self._admits and not has_place

    def _tick(self) -> None:
        now_s = self._clock.now_s()
        if self._admits and self.admission.due(now_s):
            self._history.append((now_s, self._listeners()))
            while self._history[0][0] < now_s - GROWTH_S:
                self._history.popleft()
            sounding = [s for s in self.requests.values() if s.chunks and not s.source.finished]
            self.admission.tick(self.load(), [self.deadline_s(state) - now_s for state in sounding], now_s)

    def _places_taken(self) -> int:
        """Listeners who have no comfortable lead yet.  One takes one place, however many of its sentences run."""
        now_s = self._clock.now_s()
        frame_s = self._model.info.frame_s
        wanting = set()
        for state in self.admitted():
            if state.request.stream_id not in wanting:
                lead_s = self.deadline_s(state) - now_s
                if not state.source.finished:  # then frames are the dear part, and those that wait are nearly sound
                    lead_s += (state.source.output.count - state.decoder.consumed) * frame_s
                if not state.chunks or lead_s < COMFORTABLE_LEAD_S:
                    wanting.add(state.request.stream_id)
        return len(wanting)
