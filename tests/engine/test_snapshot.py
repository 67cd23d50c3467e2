"""Snapshots: what may run on a lane, by slots, replicas and the audio that waits to be sent."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np

from realtime_tts.engine.api import AudioReady, AudioSent, Cancel, EndStream, FinishReason, RequestFinished, Submit
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model, StageInput
from tests.fakes import (
    ends_of,
    make_engine,
    make_held_engine,
    request,
    run_to_end,
    run_to_end_held,
    samples_of,
    slots,
    with_slots,
    with_stage,
    wrapped,
)


def test_a_client_that_does_not_read_stops_only_its_own_generation() -> None:
    model = tone.build()
    engine, events = make_engine(model, config=EngineConfig(max_unsent_s=2.0))
    engine.handle(Submit(request(0, "x" * 500)))
    engine.handle(Submit(request(1, "x" * 500)))
    while engine.step():
        for event in events:
            if isinstance(event, AudioReady) and event.request_id == "r1":
                engine.handle(AudioSent("r1", len(event.samples), lead_s=0.0))
        events[:] = [event for event in events if not isinstance(event, AudioReady)]
    assert ends_of(events, "r1")[0].reason is FinishReason.COMPLETE
    assert not ends_of(events, "r0")
    state = engine._table.requests["r0"]
    assert state.samples_out <= (2.0 + 2.0) * tone.SAMPLE_RATE_HZ  # the limit, and a chunk
    assert state.pending_frames <= 51  # two chunks, and a step
    engine.handle(EndStream("s0"))
    engine.step()
    assert slots(model) == 0


def test_the_unsent_audio_of_a_whole_file_has_no_limit() -> None:
    engine, events = make_engine(tone.build(), config=EngineConfig(max_unsent_s=2.0))
    engine.handle(Submit(dataclasses.replace(request(0, "x" * 300), streamed=False)))
    run_to_end(engine)
    assert ends_of(events, "r0")[0].reason is FinishReason.COMPLETE


def test_no_more_requests_begin_than_a_stage_has_slots_for() -> None:
    for stage in ("thinker", "talker", "code2wav"):
        model = with_slots(tone.build(thinker=True), stage, 2)
        limited = model.stage(stage)
        assert isinstance(limited, tone.Thinker | tone.Talker | tone.Code2Wav)
        used: list[int] = []

        def count(_batch: Sequence[StageInput], used: list[int] = used, limited: object = limited) -> None:
            assert isinstance(limited, tone.Thinker | tone.Talker | tone.Code2Wav)
            used.append(len(limited.slots))

        engine, events = make_engine(wrapped(model, "code2wav", count), config=EngineConfig(scheduler="policy_c"))
        for number in range(7):
            engine.handle(Submit(request(number)))
        engine.step()
        engine.handle(Cancel("r0"))
        run_to_end(engine)
        ends = [event.reason for event in events if isinstance(event, RequestFinished)]
        assert sorted(ends) == [FinishReason.CANCELLED] + [FinishReason.COMPLETE] * 6, stage
        assert max(used) == 2, stage
        assert slots(model) == 0, stage


def test_a_stage_that_forms_its_own_batches_gets_every_request() -> None:
    model = tone.build(max_batch=2)
    specs = (dataclasses.replace(model.specs[0], self_batching=True), model.specs[1])
    rows: list[int] = []
    model = wrapped(dataclasses.replace(model, specs=specs), "talker", lambda batch: rows.append(len(batch)))
    engine, _events = make_engine(model)
    for number in range(5):
        engine.handle(Submit(request(number)))
    run_to_end(engine)
    assert max(rows) == 5


class Counting:
    """A stage that records the requests it runs."""

    def __init__(self, model: Model, name: str, replica: int) -> None:
        self.ran: Counter[str] = Counter()
        self._stage = model.stages[name][replica]

    def run(self, batch: Sequence[StageInput]) -> Sequence[object]:
        self.ran.update(row.request.request_id for row in batch)
        return self._stage.run(batch)

    def release(self, request_id: str) -> None:
        self._stage.release(request_id)


def counted(model: Model, name: str) -> tuple[Model, list[Counter[str]]]:
    stages = [Counting(model, name, replica) for replica in range(len(model.stages[name]))]
    return with_stage(model, name, *stages), [stage.ran for stage in stages]  # type: ignore[arg-type]


def test_requests_are_spread_over_replicas_and_stay_where_they_began() -> None:
    for shared_lane in (False, True):
        inner = tone.build(replicas=2, shared_lane=shared_lane)
        model, talkers = counted(inner, "talker")
        model, decoders = counted(model, "code2wav")
        engine, events, executor = make_held_engine(model)
        for number in range(8):
            engine.handle(Submit(request(number, "x" * (10 + 7 * number))))
        engine.step()
        lanes = {launch.lane: len(launch.inputs) for launch in executor.held}
        assert lanes == {"talker-0": 4, "talker-1": 4}, "both begin with half of the requests"
        run_to_end_held(engine, executor)
        for number in range(8):
            each = request(number, "x" * (10 + 7 * number))
            assert np.array_equal(np.concatenate(samples_of(events, each.request_id)), tone.render(each))
        for first, second in (talkers, decoders):
            assert not first.keys() & second.keys()
            assert len(first | second) == 8
        assert slots(inner) == 0


def test_the_slots_of_a_replicated_stage_are_counted_by_replica() -> None:
    inner = with_slots(tone.build(replicas=2), "talker", 2)
    engine, _events, executor = make_held_engine(inner, config=EngineConfig(scheduler="policy_c"))
    for number in range(7):
        engine.handle(Submit(request(number)))
    engine.step()
    assert {launch.lane: len(launch.inputs) for launch in executor.held} == {"talker-0": 2, "talker-1": 2}
    run_to_end_held(engine, executor)
    assert slots(inner) == 0
