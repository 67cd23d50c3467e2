"""Snapshots: what each stage of a lane could do now, as frozen values for the policy."""

from realtime_tts.clock import Clock
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.request_table import RequestTable
from realtime_tts.engine.scheduling.load import Load
from realtime_tts.engine.scheduling.policy import Candidate, Snapshot, StageView
from realtime_tts.engine.scheduling.replicas import beginners
from realtime_tts.engine.stage import Model
from realtime_tts.engine.state import RequestState, StageProgress

PENDING_CHUNKS = 2
"""The frame stage runs at most so many of the longest chunks ahead of the decoder, then waits."""


class Snapshots:
    """Takes snapshots of the request table.  It changes nothing."""

    def __init__(self, model: Model, table: RequestTable, clock: Clock, config: EngineConfig) -> None:
        self._model = model
        self._table = table
        self._clock = clock
        self._plan = model.chunk_plan
        self._frame_s = model.info.frame_s
        self._most_pending_frames = PENDING_CHUNKS * model.chunk_plan.max_frames
        self._most_unsent_samples = config.max_unsent_s * model.info.sample_rate_hz
        self._last = len(model.specs) - 1
        self._on_lane = {
            lane: tuple(index for index, spec in enumerate(model.specs) if lane in spec.lanes) for lane in model.lanes
        }

    def take(self, lane: str) -> Snapshot:
        load = self._table.load()
        admitted = [(state, self._table.deadline_s(state)) for state in self._table.admitted()]
        views = tuple(self._view(index, lane, admitted, load) for index in self._on_lane[lane])
        return Snapshot(self._clock.now_s(), load, views)

    def lead_in_frames(self, state: RequestState) -> int:
        """Frames that are decoded with the first chunk, and not counted as its audio: they may not be played."""
        return 0 if state.chunks else self._model.info.silent_frames

    def _frames_to_repeat(self, state: RequestState) -> int:
        return -(-state.samples_to_repeat() // self._model.info.samples_per_frame)

    def _view(self, index: int, lane: str, admitted: list[tuple[RequestState, float]], load: Load) -> StageView:
        spec, decodes = self._model.specs[index], index == self._last
        rows: list[Candidate] = []
        for state, due_s in admitted:
            progress = state.stages[index]
            if progress.in_flight or (progress.lane is not None and progress.lane != lane):
                continue
            row = self._decode(state, due_s) if decodes else self._step(state, index, due_s, load)
            if row is not None:
                rows.append(row)
        if spec.slots is not None or spec.replicas > 1:
            rows = self._that_have_or_get_a_slot(rows, index, lane)
        return StageView(spec.name, lane, len(rows) if spec.self_batching else spec.max_batch, decodes, rows)

    def _that_have_or_get_a_slot(self, rows: list[Candidate], index: int, lane: str) -> list[Candidate]:
        requests = self._table.requests
        new = [row for row in rows if not requests[row.request_id].stages[index].opened]
        if not new:
            return rows
        begin = beginners(new, lane, self._table.open_requests[index], self._model.specs[index].slots)
        leave_out = {row.request_id for row in new} - begin
        return [row for row in rows if row.request_id not in leave_out]

    def _step(self, state: RequestState, index: int, due_s: float, load: Load) -> Candidate | None:
        """A stage that makes frames, or what comes before them."""
        if not _can_step(state, index):
            return None
        # What it has made and is not yet decoded is worth its audio: the more of it, the less urgent is the next step.
        ahead_frames: float = state.pending_frames - self._frames_to_repeat(state)
        if index == self._last - 1:
            first_frames = (state.request.initial_codec_chunk_frames or 0) + self.lead_in_frames(state)
            if state.pending_frames >= max(self._most_pending_frames, first_frames + self._plan.right_context_frames):
                return None
        else:
            made_frames = state.stages[index].output.count / load.costs.upstream[index].units_per_frame
            ahead_frames = max(ahead_frames, made_frames - state.decoder.consumed)
        return Candidate(
            due_s + ahead_frames * self._frame_s, state.sequence, state.request_id, served_s=state.served_s
        )

    def _decode(self, state: RequestState, due_s: float) -> Candidate | None:
        source = state.source
        ready = self._plan.ready(
            decoded=state.decoder.consumed, available=source.output.count, complete=source.finished
        )
        pending_frames = ready - self.lead_in_frames(state)
        if source.finished and ready:
            pending_frames = max(1, pending_frames)
        if pending_frames < 1:
            return None
        chunks, initial_frames = state.chunks, state.request.initial_codec_chunk_frames
        if repeat := self._frames_to_repeat(state):
            # Nothing of it is played: large chunks are the quickest way to the first new frame.
            chunks, initial_frames = 0, min(self._plan.max_frames, max(pending_frames, repeat + 1))
        if state.request.streamed and state.samples_unsent >= self._most_unsent_samples:
            return None
        return Candidate(
            due_s,
            state.sequence,
            state.request_id,
            pending_frames=pending_frames,
            complete=source.finished,
            chunks=chunks,
            served_s=state.served_s,
            initial_frames=initial_frames,
        )


def _can_step(state: RequestState, index: int) -> bool:
    progress = state.stages[index]
    if progress.finished:
        return False
    if index == 0:
        return not progress.starved
    before: StageProgress = state.stages[index - 1]
    if before.output.count > progress.consumed or (before.finished and not progress.input_complete):
        return True
    return progress.opened and not progress.starved
