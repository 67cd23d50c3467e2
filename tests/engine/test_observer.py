"""Observers: each batch is reported once, with its size, its time and its queue; and the end of the last request."""

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.clock import VirtualClock
from realtime_tts.engine.api import Cancel, Submit
from realtime_tts.engine.engine import Engine
from realtime_tts.engine.executor import InlineExecutor, Launch
from realtime_tts.engine.models import tone
from realtime_tts.engine.observer import EngineObservers, NoEngineObserver
from realtime_tts.engine.stage import Model
from tests.fakes import HeldExecutor, raises_for, request, run_to_end, run_to_end_held, wrapped


class Recording:
    def __init__(self) -> None:
        self.batches: list[tuple[str, int, float, int]] = []
        self.idle = 0

    def on_batch(self, launch: Launch, seconds: float, queue_depth: int) -> None:
        self.batches.append((launch.stage, len(launch.inputs), seconds, queue_depth))

    def on_idle(self) -> None:
        self.idle += 1

    def of(self, stage: str) -> list[tuple[int, float, int]]:
        return [batch[1:] for batch in self.batches if batch[0] == stage]


def observed(model: Model, clock: VirtualClock | None = None, executor: InlineExecutor | None = None) -> Engine:
    executor, clock = executor or InlineExecutor(model), clock or VirtualClock()
    return Engine(model, executor, clock, emit=lambda _events: None, observer=Recording())


def recording(engine: Engine) -> Recording:
    observer = engine._observer
    assert isinstance(observer, Recording)
    return observer


@given(texts=st.lists(st.integers(1, 60), min_size=1, max_size=6), max_batch=st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_all_batches_that_ran_are_reported(texts: list[int], max_batch: int) -> None:
    model = tone.build(max_batch=max_batch)
    ran: list[int] = []
    engine = observed(wrapped(model, "talker", lambda batch: ran.append(len(batch))))
    for number, length in enumerate(texts):
        engine.handle(Submit(request(number, "x" * length)))
    run_to_end(engine)
    seen = recording(engine)
    assert [rows for rows, _seconds, _depth in seen.of("talker")] == ran
    assert all(1 <= rows <= max_batch and depth >= 0 for _stage, rows, _seconds, depth in seen.batches)
    assert seen.idle == 1


def test_the_seconds_of_a_batch_are_those_that_its_stage_took() -> None:
    clock = VirtualClock()
    model = tone.build(costs=tone.ToneCosts(a0_s=0.01, a1_s=0.02), wait_s=clock.advance, shared_lane=True)
    engine = observed(model, clock)
    engine.handle(Submit(request(0, "x" * 10)))
    run_to_end(engine)
    assert {round(seconds, 9) for _rows, seconds, _depth in recording(engine).of("talker")} == {0.01}
    assert {round(seconds, 9) for _rows, seconds, _depth in recording(engine).of("code2wav")} == {0.02}


def test_a_request_without_room_in_a_batch_counts_as_waiting() -> None:
    model = tone.build(max_batch=2)
    executor = HeldExecutor(model)
    engine = observed(model, executor=executor)
    for number in range(5):
        engine.handle(Submit(request(number)))
    engine.step()
    executor.run_all()
    engine.step()
    ((rows, _seconds, depth),) = recording(engine).of("talker")
    assert (rows, depth) == (2, 3)
    run_to_end_held(engine, executor)


def test_a_batch_that_failed_is_reported_like_any_other() -> None:
    engine = observed(wrapped(tone.build(), "talker", raises_for("bad")))
    engine.handle(Submit(request(0, "bad")))
    run_to_end(engine)
    assert [rows for rows, _seconds, _depth in recording(engine).of("talker")] == [1]
    assert recording(engine).idle == 1


def test_a_cancel_of_the_last_request_makes_the_engine_idle() -> None:
    model = tone.build(max_batch=1)
    executor = HeldExecutor(model)
    engine = observed(model, executor=executor)
    engine.handle(Submit(request(0)))
    engine.handle(Submit(request(1)))
    engine.step()
    engine.handle(Cancel("r0"))
    assert recording(engine).idle == 0
    engine.handle(Cancel("r1"))
    assert recording(engine).idle == 1
    run_to_end_held(engine, executor)


def test_several_observers_are_called_in_order() -> None:
    one, two = Recording(), Recording()
    both = EngineObservers(one, NoEngineObserver(), two)
    both.on_batch(Launch("talker", "talker", ()), 0.5, 3)
    both.on_idle()
    assert one.batches == two.batches == [("talker", 0, 0.5, 3)]
    assert (one.idle, two.idle) == (1, 1)
