"""The engine's one loop: commit what has finished, take a snapshot, ask the policy, launch."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from realtime_tts.clock import Clock
from realtime_tts.engine.api import (
    AudioReady,
    EngineEvent,
    EngineStatus,
    FinishReason,
    RequestFinished,
    SynthesisRequest,
)
from realtime_tts.engine.chunking import ChunkPlan, next_chunk
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.executor import Completion, Executor, Launch
from realtime_tts.engine.policy import Batch, Candidate, Policy, Snapshot, StageView, playout_deadline_first
from realtime_tts.engine.stage import Model, StageInput, StageOutput
from realtime_tts.engine.state import RequestState, StageProgress, Stream, deadline_s
from realtime_tts.errors import EngineUnavailable, NothingToSpeak, Overloaded, RealtimeTTSError, SynthesisFailed

log = logging.getLogger(__name__)


@dataclass(slots=True)
class InFlight:
    """A lane's running batch."""

    launch: Launch
    states: tuple[RequestState, ...]
    since_s: float
    stuck: bool = False


class Engine:
    """Owns every request.  Not thread-safe: one thread calls it, and `emit` is called from inside `step`.

    `emit` gets all events of a step at once, and every request's `RequestFinished` exactly once.
    """

    def __init__(
        self,
        model: Model,
        executor: Executor,
        clock: Clock,
        *,
        emit: Callable[[list[EngineEvent]], None],
        policy: Policy = playout_deadline_first,
        config: EngineConfig | None = None,
    ) -> None:
        self.model = model
        self._executor = executor
        self._clock = clock
        self._emit = emit
        self._policy = policy
        self._config = config or EngineConfig()
        self._stage_index = {stage.name: index for index, stage in enumerate(model.stages)}
        self._lanes = tuple(dict.fromkeys(stage.lane for stage in model.stages))
        self._requests: dict[str, RequestState] = {}
        self._streams: dict[str, Stream] = {}
        self._in_flight: dict[str, InFlight] = {}
        self._events: list[EngineEvent] = []
        self._sequence = 0
        self._stopping = False

    # -- Commands ------------------------------------------------------------------------------------------------------

    def submit(self, request: SynthesisRequest) -> None:
        assert request.request_id not in self._requests, f"request {request.request_id} was submitted twice"
        if refusal := self._refusal():
            self._events.append(RequestFinished(request.request_id, FinishReason.ERROR, error=refusal))
            return
        plan = self._plan(request)
        stream = self._streams.setdefault(request.stream_id, Stream(request.stream_id))
        state = RequestState(
            request=request,
            sequence=self._sequence,
            submitted_s=self._clock.now_s(),
            plan=plan,
            stream=stream,
            stages=tuple(StageProgress() for _ in self.model.stages),
        )
        self._sequence += 1
        stream.requests.append(state)
        self._requests[request.request_id] = state

    def cancel(self, request_id: str) -> None:
        """Ends a request at any moment.  Unknown ids are ignored: a cancel races with the end."""
        if state := self._requests.get(request_id):
            self._end(state, FinishReason.CANCELLED)

    def routed(self, request_id: str, *, samples: int, playout_end_s: float) -> None:
        """Notes that `samples` more of a request went to its listener, who will run dry at `playout_end_s`."""
        if state := self._requests.get(request_id):
            state.samples_routed += samples
            state.stream.playout_end_s = playout_end_s

    def fail_all(self, error: RealtimeTTSError) -> None:
        for state in list(self._requests.values()):
            self._end(state, FinishReason.ERROR, error)

    def stop(self) -> None:
        """Ends every request, and takes no more; what runs is still committed, and so freed, by `step`."""
        self._stopping = True
        self.fail_all(EngineUnavailable("the server is stopping"))

    # -- The loop ------------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Commits, decides and launches once.  Says whether anything happened."""
        completions = self._executor.completed()
        for completion in completions:
            self._commit(completion)
        self._watch()
        launched = False
        for lane in self._lanes:
            if lane not in self._in_flight and (batch := self._policy(self.snapshot(), lane)):
                self._launch(lane, batch)
                launched = True
        events, self._events = self._events, []
        if events:
            self._emit(events)
        return bool(completions or launched or events)

    def next_timeout_s(self) -> float | None:
        """Seconds until a running batch is overdue, or None while none is."""
        waiting = [flight.since_s for flight in self._in_flight.values() if not flight.stuck]
        if not waiting:
            return None
        return max(0.0, min(waiting) + self._config.stage_timeout_s - self._clock.now_s())

    @property
    def busy(self) -> bool:
        """Whether a batch runs that is expected back."""
        return any(not flight.stuck for flight in self._in_flight.values())

    def status(self) -> EngineStatus:
        if self._stopping:
            return EngineStatus(ready=False, reason="stopping", active_requests=len(self._requests))
        stuck = [flight.launch.stage.name for flight in self._in_flight.values() if flight.stuck]
        reason = f"stage {', '.join(stuck)} is stuck" if stuck else "ready"
        return EngineStatus(ready=not stuck, reason=reason, active_requests=len(self._requests))

    def snapshot(self) -> Snapshot:
        """What each stage could do now, frozen for the policy."""
        deadlines = {state.request_id: self._deadline_s(state) for state in self._requests.values()}
        last = len(self.model.stages) - 1
        views = []
        for index, stage in enumerate(self.model.stages):
            candidates = []
            for state in self._requests.values():
                candidate = (self._decode_candidate if index == last else self._frame_candidate)(
                    state, index, deadlines[state.request_id]
                )
                if candidate:
                    candidates.append(candidate)
            views.append(StageView(stage.name, stage.lane, stage.max_batch, tuple(candidates)))
        return Snapshot(self._clock.now_s(), tuple(views))

    # -- What could run ------------------------------------------------------------------------------------------------

    def _deadline_s(self, state: RequestState) -> float:
        info = self.model.info
        return deadline_s(
            state,
            first_audio_target_s=self._config.first_audio_target_s,
            samples_per_frame=info.samples_per_frame,
            sample_rate_hz=info.sample_rate_hz,
        )

    def _frame_candidate(self, state: RequestState, index: int, deadline_s: float) -> Candidate | None:
        progress = state.stages[index]
        if progress.in_flight or progress.finished:
            return None
        if index > 0:
            upstream = state.stages[index - 1]
            if upstream.output.count == progress.consumed and not upstream.finished:
                return None
        # Frames that wait to be decoded are worth their sound: the less of it, the more urgent the next frame.
        pending_frames = state.source.output.count - state.decoder.consumed
        return Candidate(state.request_id, state.sequence, deadline_s + pending_frames * self.model.info.frame_s)

    def _decode_candidate(self, state: RequestState, _index: int, deadline_s: float) -> Candidate | None:
        if state.decoder.in_flight:
            return None
        chunk = next_chunk(
            state.plan,
            index=state.chunks,
            decoded=state.decoder.consumed,
            available=state.source.output.count,
            complete=state.source.finished,
        )
        return Candidate(state.request_id, state.sequence, deadline_s, chunk) if chunk else None

    def _plan(self, request: SynthesisRequest) -> ChunkPlan:
        plan = self.model.chunk_plan
        if request.initial_codec_chunk_frames is not None:
            return plan.with_initial(request.initial_codec_chunk_frames)
        others = len(self._streams) - (request.stream_id in self._streams)
        return plan.for_load(others / self.model.nominal_streams)

    def _refusal(self) -> RealtimeTTSError | None:
        status = self.status()
        if not status.ready:
            return EngineUnavailable(f"the engine takes no requests: {status.reason}")
        if len(self._requests) >= self._config.max_requests:
            return Overloaded(f"the engine already holds {self._config.max_requests} requests")
        return None

    # -- Launch and commit ---------------------------------------------------------------------------------------------

    def _launch(self, lane: str, batch: Batch) -> None:
        index = self._stage_index[batch.stage]
        now_s = self._clock.now_s()
        states = tuple(self._requests[row.request_id] for row in batch.rows)
        inputs = tuple(self._input(state, index, row) for state, row in zip(states, batch.rows, strict=True))
        for state in states:
            progress = state.stages[index]
            assert not progress.in_flight, f"{state.request_id} is already in {batch.stage}"
            progress.opened = progress.in_flight = True
            if state.started_s is None:
                state.started_s = now_s
        launch = Launch(self.model.stages[index], inputs)
        self._in_flight[lane] = InFlight(launch, states, now_s)
        self._executor.launch(launch)

    def _input(self, state: RequestState, index: int, row: Candidate) -> StageInput:
        if index == 0:
            return StageInput(state.request)
        upstream, progress = state.stages[index - 1], state.stages[index]
        if row.chunk:
            window = upstream.output.slice(row.chunk.context_start, row.chunk.context_end)
            return StageInput(state.request, window, row.chunk, upstream.finished)
        fresh = upstream.output.count > progress.consumed
        frames = upstream.output.slice(progress.consumed, upstream.output.count) if fresh else None
        progress.consumed = upstream.output.count
        upstream.output.drop_before(progress.consumed)
        return StageInput(state.request, frames, None, upstream.finished)

    def _commit(self, completion: Completion) -> None:
        flight = self._in_flight.pop(completion.launch.stage.lane)
        index = self._stage_index[completion.launch.stage.name]
        error = completion.error
        if error is None and len(completion.outputs) != len(flight.states):
            error = RuntimeError(f"{len(completion.outputs)} outputs for {len(flight.states)} inputs")
        if error is not None:
            log.error("stage %s failed: %s", completion.launch.stage.name, error, exc_info=error)
        for row, state in enumerate(flight.states):
            state.stages[index].in_flight = False
            if state.ended is not None:
                self._release(state)
            elif error is not None:
                failure = SynthesisFailed(f"stage {completion.launch.stage.name} failed on this sentence")
                self._end(state, FinishReason.ERROR, failure)
            else:
                self._commit_row(state, index, flight.launch.inputs[row], completion.outputs[row])

    def _commit_row(self, state: RequestState, index: int, row: StageInput, output: StageOutput) -> None:
        if output.error is not None:
            self._end(state, FinishReason.ERROR, output.error)
        elif row.chunk is not None:
            self._commit_samples(state, row, output)
        else:
            progress = state.stages[index]
            progress.output.append(output.values)
            progress.finished = output.finished
        if state.ended is None:
            self._finish_if_done(state)

    def _commit_samples(self, state: RequestState, row: StageInput, output: StageOutput) -> None:
        chunk = row.chunk
        assert chunk is not None
        expected = chunk.frames * self.model.info.samples_per_frame
        if output.values.shape != (expected,):
            log.error("%s gave samples of shape %s, not (%d,)", self.model.info.name, output.values.shape, expected)
            failure = SynthesisFailed("the model gave the wrong number of samples for this sentence")
            self._end(state, FinishReason.ERROR, failure)
            return
        state.decoder.consumed = chunk.end
        state.chunks += 1
        state.samples_out += expected
        state.source.output.drop_before(chunk.end - state.plan.left_context_frames)
        samples = np.asarray(output.values, np.float32)
        self._events.append(AudioReady(state.request_id, samples))

    def _finish_if_done(self, state: RequestState) -> None:
        if not state.source.finished or state.decoder.consumed < state.source.output.count:
            return
        if state.samples_out:
            self._end(state, FinishReason.COMPLETE)
        else:
            failure = NothingToSpeak("the model found nothing to speak in this text")
            self._end(state, FinishReason.ERROR, failure)

    # -- Ends ----------------------------------------------------------------------------------------------------------

    def _end(self, state: RequestState, reason: FinishReason, error: RealtimeTTSError | None = None) -> None:
        """The only way out for a request: told once, forgotten at once, freed as soon as nothing of it runs."""
        state.ended = reason
        del self._requests[state.request_id]
        state.stream.requests.remove(state)
        if not state.stream.requests:
            del self._streams[state.stream.stream_id]
        metrics = state.metrics(self._clock.now_s(), self.model.info.sample_rate_hz)
        self._events.append(RequestFinished(state.request_id, reason, metrics, error))
        self._release(state)

    def _release(self, state: RequestState) -> None:
        if state.in_flight:
            return
        for stage, progress in zip(self.model.stages, state.stages, strict=True):
            if progress.opened:
                progress.opened = False
                self._executor.release(stage, state.request_id)

    def _watch(self) -> None:
        """Gives up on a batch that does not come back.

        Every request needs every lane, so all of them fail, not only those in the batch: their listeners have long
        run dry.  The lane is used again once the batch does come back.
        """
        now_s = self._clock.now_s()
        for lane, flight in self._in_flight.items():
            if not flight.stuck and now_s - flight.since_s >= self._config.stage_timeout_s:
                flight.stuck = True
                log.error("stage %s on lane %s has not come back: giving up", flight.launch.stage.name, lane)
                self.fail_all(SynthesisFailed(f"stage {flight.launch.stage.name} did not come back in time"))
