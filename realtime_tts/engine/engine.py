"""The engine's one loop: commit what has finished, take a snapshot, ask the policy, launch."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from realtime_tts.clock import Clock
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    Cancel,
    EndStream,
    EngineCommand,
    EngineEvent,
    EngineStatus,
    Extend,
    FinishReason,
    PlayoutEnd,
    RequestFinished,
    Submit,
    SynthesisRequest,
    WordsReady,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.executors.thread import Completion, Executor, Launch
from realtime_tts.engine.observer import EngineObserver, NoEngineObserver
from realtime_tts.engine.request_table import Roster
from realtime_tts.engine.scheduling.policy import SCHEDULERS, Batch, Candidate, Snapshot, StageView
from realtime_tts.engine.silence import silent_samples
from realtime_tts.engine.stage import Model, StageInput, StageOutput
from realtime_tts.engine.state import FrameBuffer, RequestState
from realtime_tts.errors import EngineUnavailable, NothingToSpeak, RealtimeTTSError, SynthesisFailed, SynthesisTruncated

log = logging.getLogger(__name__)

PENDING_CHUNKS = 2
"""Credit of the frame stage: it runs at most so many of the longest chunks ahead of the decoder, then waits."""


@dataclass(slots=True)
class InFlight:
    """A lane's running batch."""

    launch: Launch
    states: tuple[RequestState, ...]
    since_s: float
    new_rows: tuple[bool, ...]
    """Which of them are in its stage for the first time."""
    queue_depth: int
    """Requests that had work for its stage, and no room in it."""
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
        config: EngineConfig | None = None,
        observer: EngineObserver | None = None,
    ) -> None:
        self.model = model
        self._executor = executor
        self._clock = clock
        self._emit = emit
        self._config = config or EngineConfig()
        self._observer = NoEngineObserver() if observer is None else observer
        self._scheduler = SCHEDULERS[self._config.scheduler]
        self._stage_index = {stage.name: index for index, stage in enumerate(model.stages)}
        self._lanes = tuple(dict.fromkeys(stage.lane for stage in model.stages))
        self._decoder = model.stages[-1]
        self._roster = Roster(model, clock, self._config, admits=self._scheduler.admits)
        self._in_flight: dict[str, InFlight] = {}
        self._events: list[EngineEvent] = []
        self._open = 0
        """Requests that hold something in the stages."""
        self._stopping = False

    # -- Commands ------------------------------------------------------------------------------------------------------

    def handle(self, command: EngineCommand, sent_at_s: float | None = None) -> None:
        """Applies one command.  `sent_at_s` is when it was sent, by this engine's clock; None is now."""
        match command:
            case Submit(request=request):
                self._submit(request)
            case Extend(request_id=request_id, text=text, complete=complete):
                self._extend(request_id, text, complete)
            case Cancel(request_id=request_id):
                self._cancel(request_id)
            case AudioSent(request_id=request_id, samples=samples, lead_s=lead_s):
                self._roster.routed(request_id, samples=samples, playout_end_s=self._at(sent_at_s) + lead_s)
            case PlayoutEnd(stream_id=stream_id, lead_s=lead_s):
                self._roster.playout(stream_id, self._at(sent_at_s) + lead_s)
            case EndStream(stream_id=stream_id):
                self._end_stream(stream_id)

    def _at(self, sent_at_s: float | None) -> float:
        return self._clock.now_s() if sent_at_s is None else sent_at_s

    def _submit(self, request: SynthesisRequest) -> None:
        assert request.request_id not in self._roster.requests, f"request {request.request_id} was submitted twice"
        status = self.status()
        refusal: RealtimeTTSError | None
        if status.ready:
            refusal = self._roster.refusal(request)
        else:
            refusal = EngineUnavailable(f"the engine takes no requests: {status.reason}")
        if refusal:
            self._events.append(RequestFinished(request.request_id, FinishReason.ERROR, error=refusal))
        else:
            self._roster.add(request)

    def _extend(self, request_id: str, text: str, complete: bool) -> None:
        if state := self._roster.requests.get(request_id):
            assert not state.request.text_complete, f"the text of {request_id} was complete"
            state.request = replace(state.request, text=state.request.text + text, text_complete=complete)
            state.starved = False

    def _cancel(self, request_id: str) -> None:
        if state := self._roster.requests.get(request_id):
            self._end(state, FinishReason.CANCELLED)
        else:
            self._roster.forget_unrouted(request_id)

    def _end_stream(self, stream_id: str) -> None:
        for state in self._roster.of_stream(stream_id):
            self._end(state, FinishReason.CANCELLED)
        self._roster.end_stream(stream_id)

    def fail_all(self, error: RealtimeTTSError) -> None:
        for state in list(self._roster.requests.values()):
            self._end(state, FinishReason.ERROR, error)

    def stop(self) -> None:
        """Ends every request, and takes no more; what runs is still committed, and so freed, by `step`."""
        self._stopping = True
        self.fail_all(EngineUnavailable("the server is stopping"))

    # -- The loop ------------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Commits, admits, decides and launches once.  Says whether anything happened."""
        completions = self._executor.completed()
        for completion in completions:
            self._commit(completion)
        self._watch()
        self._roster.admit()
        events, self._events = self._events, []
        if events:
            self._emit(events)  # before deciding: sound that is made waits for nothing
        launched = False
        for lane in self._lanes:
            if lane in self._in_flight:
                continue
            snapshot = self.snapshot(lane)
            if batch := self._scheduler.policy(snapshot, lane):
                self._launch(lane, batch, self._left_out(snapshot, batch))
                launched = True
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
        stuck = [flight.launch.stage.name for flight in self._in_flight.values() if flight.stuck]
        reason = "stopping" if self._stopping else f"stage {', '.join(stuck)} is stuck" if stuck else "ready"
        return EngineStatus(
            ready=reason == "ready",
            reason=reason,
            active_requests=len(self._roster.requests),
            waiting_requests=len(self._roster.waiting),
            places=self._roster.places,
            costs=self._roster.costs.costs,
        )

    def snapshot(self, lane: str) -> Snapshot:
        """What each stage of a lane could do now, frozen for the policy."""
        admitted = [(state, self._roster.deadline_s(state)) for state in self._roster.admitted()]
        views = []
        for index, stage in enumerate(self.model.stages):
            if stage.lane == lane:
                decodes = stage is self._decoder
                candidate = self._decode_candidate if decodes else self._frame_candidate
                found = (candidate(state, index, due_s) for state, due_s in admitted)
                rows = [row for row in found if row is not None]
                if index == 0:
                    rows = self._with_slots(rows)
                views.append(StageView(stage.name, stage.lane, stage.max_batch, decodes, rows))
        return Snapshot(self._clock.now_s(), self._roster.load(), tuple(views))

    # -- What could run ------------------------------------------------------------------------------------------------

    def _with_slots(self, rows: list[Candidate]) -> list[Candidate]:
        """Those that have begun, and of the others as many as the model has room for, the most urgent first."""
        if self.model.slots is None:
            return rows
        new = [row for row in rows if not self._roster.requests[row.request_id].stages[0].opened]
        free = self.model.slots - self._open
        if len(new) <= free:
            return rows
        new.sort(key=lambda row: row[:2])  # by deadline, then by the order of coming
        refused = {row.request_id for row in new[max(0, free) :]}
        return [row for row in rows if row.request_id not in refused]

    def _frame_candidate(self, state: RequestState, index: int, due_s: float) -> Candidate | None:
        progress = state.stages[index]
        if progress.in_flight or progress.finished or (index == 0 and state.starved):
            return None
        if index > 0:
            upstream = state.stages[index - 1]
            if upstream.output.count == progress.consumed and not upstream.finished:
                return None
        pending_frames = state.source.output.count - state.decoder.consumed
        plan = self.model.chunk_plan
        first_frames = (state.request.initial_codec_chunk_frames or 0) + self._lead_in(state)
        if pending_frames >= max(PENDING_CHUNKS * plan.max_frames, first_frames + plan.right_context_frames):
            return None
        # Frames that wait to be decoded are worth their sound: the less of it, the more urgent the next frame.
        due_s += pending_frames * self.model.info.frame_s
        return Candidate(due_s, state.sequence, state.request_id, served_s=state.served_s)

    def _decode_candidate(self, state: RequestState, _index: int, due_s: float) -> Candidate | None:
        source, decoder = state.source, state.decoder
        ready = self.model.chunk_plan.ready(
            decoded=decoder.consumed, available=source.output.count, complete=source.finished
        )
        pending_frames = ready - self._lead_in(state)
        if source.finished and ready:
            pending_frames = max(1, pending_frames)
        if pending_frames < 1 or decoder.in_flight:
            return None
        limit = self._config.max_unrouted_s * self.model.info.sample_rate_hz
        if state.request.streamed and state.samples_unrouted >= limit:
            return None
        return Candidate(
            due_s,
            state.sequence,
            state.request_id,
            pending_frames=pending_frames,
            complete=source.finished,
            chunks=state.chunks,
            served_s=state.served_s,
            initial_frames=state.request.initial_codec_chunk_frames,
        )

    def _lead_in(self, state: RequestState) -> int:
        """Frames that are decoded with the first chunk, and not counted as its sound: they may not be played."""
        return 0 if state.chunks else self.model.info.silent_frames

    # -- Launch and commit ---------------------------------------------------------------------------------------------

    def _left_out(self, snapshot: Snapshot, batch: Batch) -> int:
        view = next(view for view in snapshot.stages if view.name == batch.stage)
        waiting = len(self._roster.waiting) if batch.stage == self.model.stages[0].name else 0
        return len(view.candidates) - len(batch.rows) + waiting

    def _launch(self, lane: str, batch: Batch, queue_depth: int) -> None:
        index = self._stage_index[batch.stage]
        now_s = self._clock.now_s()
        states = tuple(self._roster.requests[row.request_id] for row in batch.rows)
        inputs = tuple(self._input(state, index, row) for state, row in zip(states, batch.rows, strict=True))
        new_rows = tuple(not state.stages[index].opened for state in states)
        for state in states:
            progress = state.stages[index]
            assert not progress.in_flight, f"{state.request_id} is already in {batch.stage}"
            self._open += index == 0 and not progress.opened
            progress.opened = progress.in_flight = True
            if state.started_s is None:
                state.started_s = now_s
        launch = Launch(self.model.stages[index], inputs)
        self._in_flight[lane] = InFlight(launch, states, now_s, new_rows, queue_depth)
        self._executor.launch(launch)

    def _input(self, state: RequestState, index: int, row: Candidate) -> StageInput:
        if index == 0:
            retry, state.retry = state.retry, False
            return StageInput(state.request, retry=retry)
        upstream, progress = state.stages[index - 1], state.stages[index]
        available = upstream.output.count
        if row.frames:
            frames_n = min(row.frames + self._lead_in(state), available - progress.consumed)
            chunk = self.model.chunk_plan.cut(
                decoded=progress.consumed, frames=frames_n, available=available, complete=upstream.finished
            )
            state.served_s = self._clock.now_s()
            if state.initial_frames is None:
                state.initial_frames = row.frames
            window = upstream.output.slice(chunk.context_start, chunk.context_end)
            return StageInput(state.request, window, chunk, upstream.finished)
        frames = upstream.output.slice(progress.consumed, available) if available > progress.consumed else None
        progress.consumed = available
        upstream.output.drop_before(available)
        return StageInput(state.request, frames, None, upstream.finished)

    def _commit(self, completion: Completion) -> None:
        stage = completion.launch.stage
        flight = self._in_flight.pop(stage.lane)
        seconds = self._clock.now_s() - flight.since_s
        self._observer.on_batch(flight.launch, seconds, flight.queue_depth)
        index = self._stage_index[stage.name]
        error = completion.error
        if error is None and len(completion.outputs) != len(flight.states):
            error = RuntimeError(f"{len(completion.outputs)} outputs for {len(flight.states)} inputs")
        if error is not None:
            log.error("stage %s failed: %s", stage.name, error, exc_info=error)
        elif not flight.stuck:
            self._learn(index, flight, completion, seconds)
        for row, state in enumerate(flight.states):
            state.stages[index].in_flight = False
            if state.ended is not None:
                self._release(state)
            elif error is not None:
                failure = SynthesisFailed(f"stage {stage.name} failed on this sentence")
                self._end(state, FinishReason.ERROR, failure)
            else:
                self._commit_row(state, index, flight.launch.inputs[row], completion.outputs[row])

    def _learn(self, index: int, flight: InFlight, completion: Completion, seconds: float) -> None:
        """Every step that was measured makes the next prediction better."""
        if index == len(self.model.stages) - 1:
            decoded = zip(flight.launch.inputs, completion.outputs, strict=True)
            cost_frames = self.model.chunk_plan.cost_frames
            frames = sum(cost_frames(row.chunk, skipped_frames=out.skipped_frames) for row, out in decoded if row.chunk)
            if frames:  # of silence alone a decode's fixed price cannot be learnt: none was paid
                self._roster.costs.observe_decode(frames, seconds)
        elif index == len(self.model.stages) - 2:
            outputs = completion.outputs
            reading = sum(new or out.prefilled for new, out in zip(flight.new_rows, outputs, strict=True))
            made = sum(len(output.values) for output in outputs)
            self._roster.costs.observe_frames(sum(output.stepped for output in outputs), reading, made, seconds)

    def _commit_row(self, state: RequestState, index: int, row: StageInput, output: StageOutput) -> None:
        if output.error is not None:
            self._end(state, FinishReason.ERROR, output.error)
        elif row.chunk is not None:
            self._commit_samples(state, row, output)
        elif output.can_retry and index == 0 and not any(stage.opened for stage in state.stages[1:]):
            # Nobody has heard, nor begun to decode, what came before: it is as if it had never been.
            state.stages[index].output = FrameBuffer()
            state.retry = True
        else:
            progress = state.stages[index]
            progress.output.append(output.values)
            progress.finished = output.finished
            state.truncated |= output.truncated
            # What it read of the text may be less than there is by now.
            state.starved = output.starved and row.request is state.request
            if output.words:
                self._events.append(WordsReady(state.request_id, output.words))
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
        samples = np.asarray(output.values, np.float32)
        info, lead_in = self.model.info, self._lead_in(state)
        state.samples_withheld += (withheld := silent_samples(samples, info.samples_per_frame, lead_in))
        state.chunks += 1
        state.samples_out += expected - withheld
        state.source.output.drop_before(chunk.end - self.model.chunk_plan.left_context_frames)
        self._events.append(AudioReady(state.request_id, samples[withheld:]))

    def _finish_if_done(self, state: RequestState) -> None:
        if not state.source.finished or state.decoder.consumed < state.source.output.count:
            return
        if state.samples_out:
            self._roster.admission.observe_request(state.samples_out / self.model.info.sample_rate_hz)
            if state.truncated:
                truncation = SynthesisTruncated("the model did not come to the end of this sentence")
                self._end(state, FinishReason.TRUNCATED, truncation)
            else:
                self._end(state, FinishReason.COMPLETE)
        else:
            self._end(state, FinishReason.ERROR, NothingToSpeak("the model found nothing to speak in this text"))

    # -- Ends ----------------------------------------------------------------------------------------------------------

    def _end(self, state: RequestState, reason: FinishReason, error: RealtimeTTSError | None = None) -> None:
        """The only way out for a request: told once, and freed as soon as nothing of it runs."""
        state.ended = reason
        self._roster.remove(state)
        metrics = state.metrics(self._clock.now_s(), self.model.info.sample_rate_hz)
        self._events.append(RequestFinished(state.request_id, reason, metrics, error))
        self._release(state)
        if not self._roster.requests:
            self._observer.on_idle()

    def _release(self, state: RequestState) -> None:
        if state.in_flight:
            return
        self._open -= state.stages[0].opened
        for stage, progress in zip(self.model.stages, state.stages, strict=True):
            progress.output.drop_before(progress.output.count)
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
