"""A pipeline of three stages: a Thinker writes an answer, a Talker speaks it while it is written, Code2Wav decodes."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import (
    AudioReady,
    EngineEvent,
    Extend,
    FinishReason,
    Samples,
    Submit,
    SynthesisRequest,
    TextReady,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.stage import Payload, Stage, StageInput, StageOutput, host_array, join_arrays
from tests.fakes import ends_of, make_engine, make_held_engine, request, run_to_end, samples_of, slots, with_stage


def answer_to(asked: SynthesisRequest) -> Samples:
    return tone.render(dataclasses.replace(asked, text=tone.answer(asked.text)))


def text_of(events: Sequence[EngineEvent], request_id: str) -> str:
    return "".join(e.text for e in events if isinstance(e, TextReady) and e.request_id == request_id)


@given(
    texts=st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=5),
    max_batch=st.integers(1, 4),
    shared_lane=st.booleans(),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    context=st.integers(0, 5),
    scheduler=st.sampled_from(["deadline", "policy_c", "edf_only"]),
)
@settings(deadline=None, max_examples=30)
def test_any_batches_and_chunks_give_the_answer_s_whole_text_and_audio(
    texts: list[str], max_batch: int, shared_lane: bool, sizes: list[int], context: int, scheduler: str
) -> None:
    model = tone.build(thinker=True, max_batch=max_batch, shared_lane=shared_lane)
    model = dataclasses.replace(model, chunk_plan=ChunkPlan(tuple(sizes), left_context_frames=context))
    engine, events = make_engine(model, config=EngineConfig(scheduler=scheduler, max_wait_s=None))
    for number, text in enumerate(texts):
        engine.handle(Submit(request(number, text)))
    run_to_end(engine)
    for number, text in enumerate(texts):
        name = f"r{number}"
        assert text_of(events, name) == tone.answer(text)
        assert np.array_equal(np.concatenate(samples_of(events, name)), answer_to(request(number, text)))
        assert ends_of(events, name)[0].reason is FinishReason.COMPLETE
    assert slots(model) == 0


def test_text_precedes_its_audio_in_order_and_audio_begins_before_the_text_is_complete() -> None:
    engine, events, executor = make_held_engine(tone.build(thinker=True))
    engine.handle(Submit(request(0, "x" * 100)))
    while engine.step() or executor.held:
        executor.run_all()
    written = spoken = 0
    for event in events:
        if isinstance(event, TextReady):
            written += len(event.text)
        elif isinstance(event, AudioReady):
            spoken += len(event.samples)
            characters = spoken / tone.SAMPLES_PER_FRAME / 0.8
            assert written + 1 >= characters, "no audio before its text"
    kinds = [type(event) for event in events]
    assert kinds.index(AudioReady) < len(kinds) - 1 - kinds[::-1].index(TextReady)
    assert text_of(events, "r0") == tone.answer("x" * 100)


def test_a_thinker_that_waits_for_the_question_starves_no_other() -> None:
    model = tone.build(thinker=True, reads_ahead=True)
    engine, events = make_engine(model)
    asked = request(0, "What is it?")
    engine.handle(Submit(dataclasses.replace(asked, text="What", text_complete=False)))
    engine.handle(Submit(request(1)))
    run_to_end(engine)
    assert ends_of(events, "r1")[0].reason is FinishReason.COMPLETE
    assert not text_of(events, "r0")
    engine.handle(Extend("r0", " is it?", True))
    run_to_end(engine)
    assert np.array_equal(np.concatenate(samples_of(events, "r0")), answer_to(asked))
    assert slots(model) == 0


class LastPart:
    """A Thinker that gives everything in the end, or nothing."""

    def __init__(self, whole: str) -> None:
        self.whole = whole
        self.runs = 0

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        self.runs += len(batch)
        finished = self.runs > 3
        text = self.whole if finished else ""
        values = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        return [StageOutput(values, finished=finished, text=text) for _ in batch]

    def release(self, request_id: str) -> None:
        pass


class Measured:
    """A Talker that records how many rows of text each run gives it, and speaks nothing where there are none."""

    def __init__(self, inner: Stage) -> None:
        self.inner = inner
        self.rows: list[int] = []

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        self.rows.extend(0 if row.values is None else len(row.values) for row in batch)
        if self.rows == [0]:
            return [StageOutput(np.empty((0, 3), np.int64), finished=True)]
        return self.inner.run(batch)

    def release(self, request_id: str) -> None:
        self.inner.release(request_id)


def test_a_talker_does_not_begin_before_there_is_text() -> None:
    for whole, reason in (("All at once.", FinishReason.COMPLETE), ("", FinishReason.ERROR)):
        model = tone.build(thinker=True)
        talker = Measured(model.stage("talker"))
        engine, events = make_engine(with_stage(with_stage(model, "thinker", LastPart(whole)), "talker", talker))
        engine.handle(Submit(request(0)))
        run_to_end(engine)
        assert ends_of(events, "r0")[0].reason is reason
        assert talker.rows[0] == len(whole)
        assert sum(talker.rows) == len(whole), "each row is given once"


@dataclasses.dataclass(frozen=True)
class Start:
    loudness: float


class HandsOff:
    """A Talker that gives a handoff with its first output, and another one later."""

    def __init__(self, inner: Stage) -> None:
        self.inner = inner
        self.runs = 0

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        self.runs += 1
        handoff = {1: Start(0.1), 8: Start(0.7)}.get(self.runs)
        return [dataclasses.replace(output, handoff=handoff) for output in self.inner.run(batch)]

    def release(self, request_id: str) -> None:
        self.inner.release(request_id)


def test_the_next_stage_gets_the_latest_handoff_with_every_batch() -> None:
    inner = tone.build()
    model = with_stage(inner, "talker", HandsOff(inner.stage("talker")))
    decoder = inner.stage("code2wav")
    given: list[object] = []

    class Watched:
        def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
            given.extend(row.handoff for row in batch)
            return decoder.run(batch)

        def release(self, request_id: str) -> None:
            decoder.release(request_id)

    engine, events = make_engine(with_stage(model, "code2wav", Watched()), config=EngineConfig(scheduler="policy_c"))
    engine.handle(Submit(request(0, "x" * 60)))
    run_to_end(engine)
    assert ends_of(events, "r0")[0].reason is FinishReason.COMPLETE
    assert given[0] == Start(0.1)
    assert given[-1] == Start(0.7)


class OnDevice:
    """A payload that is no host array, such as a tensor on a device."""

    def __init__(self, rows: Samples) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: slice, /) -> "OnDevice":
        return OnDevice(self._rows[rows])

    def to_host(self) -> Samples:
        return self._rows


def join_on_device(parts: Sequence[Payload]) -> Payload:
    arrays = []
    for part in parts:
        assert isinstance(part, OnDevice)
        arrays.append(part.to_host())
    return OnDevice(np.concatenate(arrays))


def test_the_engine_passes_on_payloads_that_it_cannot_read() -> None:
    inner = tone.build()
    talker, decoder = inner.stage("talker"), inner.stage("code2wav")

    class ToDevice:
        def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
            outputs = talker.run(batch)
            return [dataclasses.replace(o, values=OnDevice(host_array(o.values))) for o in outputs]  # type: ignore[arg-type]

        def release(self, request_id: str) -> None:
            talker.release(request_id)

    class FromDevice:
        def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
            rows = []
            for row in batch:
                assert isinstance(row.values, OnDevice)
                rows.append(dataclasses.replace(row, values=row.values.to_host()))
            return decoder.run(rows)

        def release(self, request_id: str) -> None:
            decoder.release(request_id)

    specs = (dataclasses.replace(inner.specs[0], join=join_on_device), inner.specs[1])
    model = with_stage(dataclasses.replace(inner, specs=specs), "talker", ToDevice())
    engine, events = make_engine(with_stage(model, "code2wav", FromDevice()))
    engine.handle(Submit(request(0)))
    run_to_end(engine)
    assert np.array_equal(np.concatenate(samples_of(events, "r0")), tone.render(request(0)))


def test_a_host_array_is_required_where_one_is_read() -> None:
    with pytest.raises(AssertionError, match="array on the host"):
        join_arrays([OnDevice(np.zeros(3, np.float32))])
