"""The engine's one loop: commit what has finished, take a snapshot, ask the policy, launch."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from realtime_tts.clock import Clock
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    Cancel,
    CodesReady,
    EndStream,
    EngineCommand,
    EngineEvent,
    EngineStatus,
    Extend,
    FinishReason,
    PlayoutEnd,
    RequestAccepted,
    RequestFinished,
    Samples,
    Submit,
    SubmitAnswer,
    SynthesisRequest,
    TextReady,
    Word,
    WordsReady,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.executor import Completion, Executor, Launch
from realtime_tts.engine.observer import EngineObserver, NoEngineObserver
from realtime_tts.engine.request_table import RequestTable
from realtime_tts.engine.scheduling.policy import SCHEDULERS, Batch, Candidate, Snapshot
from realtime_tts.engine.silence import silent_samples
from realtime_tts.engine.snapshot import Snapshots
from realtime_tts.engine.stage import Model, Payload, StageInput, StageOutput, pack_codes
from realtime_tts.engine.state import RequestState
from realtime_tts.errors import EngineUnavailable, NothingToSpeak, RealtimeTTSError, SynthesisFailed, SynthesisTruncated

log = logging.getLogger(__name__)


@dataclass(slots=True)
class InFlight:
    """A lane's running batch."""

    launch: Launch
    index: int
    """Of its stage."""
    states: tuple[RequestState, ...]
    since_s: float
    new_rows: tuple[bool, ...]
    """Which of them are in its stage for the first time."""
    queue_depth: int
    """Requests that had work for its stage, and no room in it."""
    stuck: bool = False


class Engine:
    """Owns every request.  Not thread-safe: one thread calls it, and `emit` is called from inside `step`.

    `emit` gets all events of a step at once, and every request's `RequestFinished` exactly once.  Of the model the
    engine uses the description alone; its stages are behind the executor.
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
        self._config = config or EngineConfig()
        self._info = model.info
        self._fade_samples = round((model.info.resume_fade_s or 0.0) * model.info.sample_rate_hz)
        self._specs = model.specs
        self._plan = model.chunk_plan
        self._lanes = model.lanes
        self._stage_index = {spec.name: index for index, spec in enumerate(model.specs)}
        self._executor = executor
        self._clock = clock
        self._emit = emit
        self._observer = NoEngineObserver() if observer is None else observer
        scheduler = SCHEDULERS[self._config.scheduler]
        self._policy = scheduler.policy
        self._table = RequestTable(model, clock, self._config, admission=scheduler.admission)
        self._snapshots = Snapshots(model, self._table, clock, self._config)
        self._in_flight: dict[str, InFlight] = {}
        self._events: list[EngineEvent] = []
        self._stopping = False

    # -- Commands ------------------------------------------------------------------------------------------------------

    def handle(self, command: EngineCommand, sent_at_s: float | None = None) -> None:
        """Applies one command.  `sent_at_s` is when it was sent, by this engine's clock; None is now."""
        match command:
            case Submit(request=request):
                self._submit(request)
            case Extend():
                self._extend(command, self._at(sent_at_s))
            case Cancel(request_id=request_id):
                self._cancel(request_id)
            case AudioSent(request_id=request_id, samples=samples, lead_s=lead_s):
                self._table.sent(request_id, samples=samples, playout_end_s=self._at(sent_at_s) + lead_s)
            case PlayoutEnd(stream_id=stream_id, lead_s=lead_s):
                self._table.set_playout_end(stream_id, self._at(sent_at_s) + lead_s)
            case EndStream(stream_id=stream_id):
                self._end_stream(stream_id)
            case SubmitAnswer():
                raise AssertionError("a speech engine answers no conversations: an AnswerEngine does")

    def _at(self, sent_at_s: float | None) -> float:
        return self._clock.now_s() if sent_at_s is None else sent_at_s

    def _submit(self, request: SynthesisRequest) -> None:
        assert request.request_id not in self._table.requests, f"request {request.request_id} was submitted twice"
        status = self.status()
        refusal: RealtimeTTSError | None
        if status.ready:
            refusal = self._table.refusal(request)
        else:
            refusal = EngineUnavailable(f"the engine accepts no requests: {status.reason}")
        if refusal:
            self._events.append(RequestFinished(request.request_id, FinishReason.ERROR, error=refusal))
        else:
            self._table.add(request)

    def _extend(self, more: Extend, at_s: float) -> None:
        if state := self._table.requests.get(more.request_id):
            assert not state.request.text_complete, f"the text of {more.request_id} was complete"
            state.request = state.request.extended(more)
            state.stages[0].starved = False
            state.token_intervals.observe(len(more.ids), at_s)

    def _cancel(self, request_id: str) -> None:
        if state := self._table.requests.get(request_id):
            self._end(state, FinishReason.CANCELLED)
        else:
            self._table.forget_unsent(request_id)

    def _end_stream(self, stream_id: str) -> None:
        for state in self._table.of_stream(stream_id):
            self._end(state, FinishReason.CANCELLED)
        self._table.end_stream(stream_id)

    def fail_all(self, error: RealtimeTTSError) -> None:
        for state in list(self._table.requests.values()):
            self._end(state, FinishReason.ERROR, error)

    def stop(self) -> None:
        """Ends every request, and accepts no others; `step` then commits what runs, and frees it."""
        self._stopping = True
        self.fail_all(EngineUnavailable("the server is stopping"))

    # -- Loop ----------------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Commits, admits, decides and launches once.  Returns whether anything happened."""
        completions = self._executor.completed()
        for completion in completions:
            self._commit(completion)
        self._give_up_on_stuck_batches()
        self._table.admit_waiting()
        for state, error in self._table.overdue():
            self._end(state, FinishReason.ERROR, error)
        self._events += map(RequestAccepted, self._table.pop_accepted())
        events, self._events = self._events, []
        if events:
            self._emit(events)  # before deciding: audio that is made waits for nothing
        launched = False
        for lane in self._lanes:
            if lane in self._in_flight:
                continue
            snapshot = self._snapshots.take(lane)
            if batch := self._policy(snapshot, lane):
                self._launch(lane, batch, self._left_out(snapshot, batch))
                launched = True
        return bool(completions or launched or events)

    def next_timeout_s(self) -> float | None:
        """Seconds until a step is due although nothing happens; None if none is.

        Then a running batch is overdue, or a queued request is to be admitted or ended.
        """
        since_s = [flight.since_s for flight in self._in_flight.values() if not flight.stuck]
        due_s = [each + self._config.stage_timeout_s for each in since_s]
        if (change_s := self._table.next_change_s()) is not None:
            due_s.append(change_s)
        return max(0.0, min(due_s) - self._clock.now_s()) if due_s else None

    @property
    def busy(self) -> bool:
        """Whether a batch runs that is not stuck."""
        return any(not flight.stuck for flight in self._in_flight.values())

    def status(self) -> EngineStatus:
        stuck = [flight.launch.stage for flight in self._in_flight.values() if flight.stuck]
        reason = "stopping" if self._stopping else f"stage {', '.join(stuck)} is stuck" if stuck else "ready"
        return EngineStatus(
            ready=reason == "ready",
            reason=reason,
            active_requests=len(self._table.requests),
            waiting_requests=len(self._table.queue),
            queued_requests=self._table.queue.patient,
            capacity=self._table.capacity,
            costs=self._table.costs.costs,
        )

    # -- Launch --------------------------------------------------------------------------------------------------------

    def _left_out(self, snapshot: Snapshot, batch: Batch) -> int:
        view = next(view for view in snapshot.stages if view.name == batch.stage)
        waiting = len(self._table.queue) if batch.stage == self._specs[0].name else 0
        return len(view.candidates) - len(batch.rows) + waiting

    def _launch(self, lane: str, batch: Batch, queue_depth: int) -> None:
        index = self._stage_index[batch.stage]
        now_s = self._clock.now_s()
        states = tuple(self._table.requests[row.request_id] for row in batch.rows)
        inputs = tuple(self._input(state, index, row) for state, row in zip(states, batch.rows, strict=True))
        new_rows = tuple(not state.stages[index].opened for state in states)
        for state in states:
            progress = state.stages[index]
            assert not progress.in_flight, f"{state.request_id} is already in {batch.stage}"
            progress.in_flight = True
            if not progress.opened:
                self._table.open_stage(state, index, lane)
            if state.started_s is None:
                state.started_s = now_s
        launch = Launch(batch.stage, lane, inputs)
        self._in_flight[lane] = InFlight(launch, index, states, now_s, new_rows, queue_depth)
        self._executor.launch(launch)

    def _input(self, state: RequestState, index: int, row: Candidate) -> StageInput:
        progress = state.stages[index]
        retry, progress.retry = progress.retry, False
        if index == 0:
            return StageInput(state.request, retry=retry)
        if row.frames:
            return self._chunk_input(state, row)
        before = state.stages[index - 1]
        values = None
        if before.output.count > progress.consumed:
            values = before.output.slice(progress.consumed, before.output.count)
        progress.consumed = before.output.count
        progress.input_complete = before.finished
        if state.stages[index + 1].opened:  # else it may still restart, and get them again
            before.output.drop_before(progress.consumed)
        return StageInput(state.request, values, upstream_complete=before.finished, handoff=before.handoff, retry=retry)

    def _chunk_input(self, state: RequestState, row: Candidate) -> StageInput:
        source = state.source
        frames = min(row.frames + self._snapshots.lead_in_frames(state), state.pending_frames)
        chunk = self._plan.chunk(
            decoded=state.decoder.consumed,
            frames=frames,
            available=source.output.count,
            complete=source.finished,
        )
        state.served_s = self._clock.now_s()
        if state.initial_frames is None:
            state.initial_frames = row.frames
        window = source.output.slice(chunk.context_start, chunk.context_end)
        return StageInput(state.request, window, chunk, source.finished, source.handoff)

    # -- Commit --------------------------------------------------------------------------------------------------------

    def _commit(self, completion: Completion) -> None:
        launch = completion.launch
        flight = self._in_flight.pop(launch.lane)
        seconds = self._clock.now_s() - flight.since_s
        self._observer.on_batch(launch, seconds, flight.queue_depth)
        error = completion.error
        if error is None and len(completion.outputs) != len(flight.states):
            error = RuntimeError(f"{len(completion.outputs)} outputs for {len(flight.states)} inputs")
        if error is not None:
            log.error("stage %s failed: %s", launch.stage, error, exc_info=error)
        elif not flight.stuck:
            self._observe_costs(flight, completion, seconds)
        for row, state in enumerate(flight.states):
            state.stages[flight.index].in_flight = False
            if state.ended is not None:
                self._release(state)
            elif error is not None:
                self._end(state, FinishReason.ERROR, SynthesisFailed(f"stage {launch.stage} failed on this sentence"))
            else:
                self._commit_row(state, flight.index, launch.inputs[row], completion.outputs[row])

    def _observe_costs(self, flight: InFlight, completion: Completion, seconds: float) -> None:
        """Every measured launch makes the next prediction better."""
        outputs = completion.outputs
        if flight.index < len(self._specs) - 1:
            reading = sum(new or out.prefilled for new, out in zip(flight.new_rows, outputs, strict=True))
            made = sum(len(output.values) - output.resumed_rows for output in outputs)
            stepped = sum(output.stepped for output in outputs)
            self._table.costs.observe_step(flight.index, stepped, reading, made, seconds)
            return
        rows = zip(flight.launch.inputs, outputs, strict=True)
        cost_frames = self._plan.cost_frames
        frames = sum(cost_frames(row.chunk, skipped_frames=out.skipped_frames) for row, out in rows if row.chunk)
        if frames:  # silence alone says nothing about the fixed price of a decode: it was not paid
            self._table.costs.observe_decode(frames, seconds)

    def _commit_row(self, state: RequestState, index: int, row: StageInput, output: StageOutput) -> None:
        if output.error is not None:
            self._end(state, FinishReason.ERROR, output.error)
        elif row.chunk is not None:
            self._commit_samples(state, row.chunk.end, row.chunk.frames, output.values)
        else:
            self._commit_values(state, index, row, output)
        if state.ended is None:
            self._finish_if_decoded(state)

    def _commit_values(self, state: RequestState, index: int, row: StageInput, output: StageOutput) -> None:
        progress = state.stages[index]
        if output.can_retry and not any(stage.opened for stage in state.stages[index + 1 :]):
            progress.restart()  # no later stage has received its output
            return
        progress.output.append(output.values)
        if output.resumed_rows and (resume := state.request.resume) is not None:
            state.frames_reported, state.code_bytes_reported = output.resumed_rows, len(resume.codes)
        progress.finished = output.finished
        # The first stage may have read less of the text than there is by now.
        progress.starved = output.starved and (index > 0 or row.request is state.request)
        if output.handoff is not None:
            progress.handoff = output.handoff
        state.truncated |= output.truncated
        if output.words and (words := self._new_words(state, output.words)):
            self._events.append(WordsReady(state.request_id, words))
        if output.text:
            self._events.append(TextReady(state.request_id, output.text))

    @staticmethod
    def _new_words(state: RequestState, words: tuple[Word, ...]) -> tuple[Word, ...]:
        if (resume := state.request.resume) is None:
            return words
        repeated = min(len(words), resume.words_received - state.words_repeated)
        state.words_repeated += repeated
        return words[repeated:]

    def _commit_samples(self, state: RequestState, end: int, frames: int, values: Payload) -> None:
        expected = frames * self._info.samples_per_frame
        if not isinstance(values, np.ndarray) or values.shape != (expected,):
            log.error("%s did not return %d samples for %d frames", self._info.name, expected, frames)
            failure = SynthesisFailed("the model gave the wrong number of samples for this sentence")
            self._end(state, FinishReason.ERROR, failure)
            return
        state.decoder.consumed = end
        samples: Samples = np.asarray(values, np.float32)
        lead_in = self._snapshots.lead_in_frames(state)
        withheld = silent_samples(samples, self._info.samples_per_frame, lead_in)
        state.samples_withheld += withheld
        state.chunks += 1
        if state.request.wants_codes:
            self._report_codes(state)
        state.source.output.drop_before(end - self._plan.left_context_frames)
        new = self._not_repeated(state, samples[withheld:])
        state.samples_out += len(new)
        if len(new) or state.request.resume is None:
            self._events.append(AudioReady(state.request_id, new))

    def _report_codes(self, state: RequestState) -> None:
        output = state.source.output
        if output.count > state.frames_reported:
            codes = pack_codes(output.slice(state.frames_reported, output.count))
            self._events.append(CodesReady(state.request_id, state.code_bytes_reported, codes))
            state.frames_reported = output.count
            state.code_bytes_reported += len(codes)

    def _not_repeated(self, state: RequestState, samples: Samples) -> Samples:
        """What the listener has not received before the loss of another engine, without a step where it continues."""
        if (resume := state.request.resume) is None:
            return samples
        repeated = min(len(samples), state.samples_to_repeat())
        state.samples_repeated += repeated
        if repeated:
            state.joint_step = resume.last_sample - float(samples[repeated - 1])
        new = samples[repeated:]
        step, fade = state.joint_step, min(len(new), self._fade_samples)
        if fade and step:
            new = new.copy()
            new[:fade] += np.linspace(step, 0.0, fade, dtype=np.float32)
        if len(new):
            state.joint_step = 0.0
        return new

    # -- Ends ----------------------------------------------------------------------------------------------------------

    def _finish_if_decoded(self, state: RequestState) -> None:
        if not state.decoded:
            return
        if not state.samples_out:
            self._end(state, FinishReason.ERROR, NothingToSpeak("the model found nothing to speak in this text"))
            return
        self._table.observe_whole(state)
        if state.truncated:
            truncation = SynthesisTruncated("the model stopped before the end of this sentence")
            self._end(state, FinishReason.TRUNCATED, truncation)
        else:
            self._end(state, FinishReason.COMPLETE)

    def _end(self, state: RequestState, reason: FinishReason, error: RealtimeTTSError | None = None) -> None:
        """The only way out for a request: one last event, and it is freed as soon as none of its batches runs."""
        state.ended = reason
        self._table.remove(state)
        metrics = state.metrics(self._clock.now_s(), self._info.sample_rate_hz)
        self._events.append(RequestFinished(state.request_id, reason, metrics, error))
        self._release(state)
        if not self._table.requests:
            self._observer.on_idle()

    def _release(self, state: RequestState) -> None:
        if state.in_flight:
            return
        for index, (spec, progress) in enumerate(zip(self._specs, state.stages, strict=True)):
            progress.output.drop_before(progress.output.count)
            progress.handoff = None
            if (lane := progress.lane) is not None:
                self._table.close_stage(state, index, lane)
                self._executor.release(spec.name, lane, state.request_id)

    def _give_up_on_stuck_batches(self) -> None:
        """Fails all requests if a batch does not return.

        Every request needs every stage, so all of them fail, not only those in the batch: their listeners have run dry
        long before.  The lane is used again once the batch returns.
        """
        now_s = self._clock.now_s()
        for lane, flight in self._in_flight.items():
            if not flight.stuck and now_s - flight.since_s >= self._config.stage_timeout_s:
                flight.stuck = True
                log.error("stage %s on lane %s has not returned: all requests fail", flight.launch.stage, lane)
                self.fail_all(SynthesisFailed(f"stage {flight.launch.stage} did not return in time"))
